// Elements, and text that a reader can trust: values enter the document as text nodes only, and none of their characters is invisible.

// Characters without a glyph, and those that turn the text around them: controls, formats, lone surrogates, fillers.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu;

function escaped(char) {
    const digits = char.codePointAt(0).toString(16);
    return char < '\u0100' ? '\\x' + digits.padStart(2, '0') : 'U+' + digits.toUpperCase().padStart(4, '0');
}

// Nodes for a text. `keep`: characters that stay although nobody sees them.
function visible(text, keep = '') {
    const nodes = [];
    let from = 0;
    for (const {0: char, index} of text.matchAll(UNSEEN)) {
        if (keep.includes(char)) continue;
        nodes.push(text.slice(from, index), h('span.unseen', escaped(char)));
        from = index + char.length;
    }
    return [...nodes, text.slice(from)];
}

// A text that keeps its line ends.
export const lines = (text) => ({nodes: visible(text, '\n\t')});

function add(parent, child) {
    if (child == null || child === false) return;
    if (Array.isArray(child)) for (const one of child) add(parent, one);
    else if (child instanceof Node) parent.append(child);
    else parent.append(...(child.nodes || visible(String(child))));
}

function make(node, props, children) {
    for (const [name, value] of Object.entries(props)) {
        if (value == null || value === false) continue;
        if (name.startsWith('on')) node[name] = value;
        else if (name === 'class') node.classList.add(...value.split(' '));
        else node.setAttribute(name, value === true ? '' : value);
    }
    add(node, children);
    return node;
}

// h('td.number', {title: 'x', onclick: f}, child...): children are texts, nodes and arrays of them.
export function h(spec, props, ...children) {
    const [tag, ...classes] = spec.split('.');
    const node = document.createElement(tag);
    if (classes.length) node.className = classes.join(' ');
    return props?.constructor === Object && !props.nodes ? make(node, props, children) : make(node, {}, [props, ...children]);
}

export const svg = (tag, props, ...children) => make(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);

// Text of the sidecar between backticks is code.
export const marked = (text) => text.split('`').map((part, i) => (i % 2 ? h('code', part) : part));

export const heading = (...text) => h('h1', {tabindex: -1}, text);
export const none = (...text) => h('p.none', text);

// The beginning of a value that may be long.
export function brief(text, most = 160) {
    const all = text == null ? '' : String(text);
    return all.length > most ? all.slice(0, most).replace(/[\ud800-\udbff]$/, '') + '…' : all;
}

export const number = (n) => (n == null ? '–' : Number(n).toLocaleString('en-US'));

export function bytes(n) {
    if (n == null) return '–';
    const unit = Math.min(3, Math.floor(Math.log2(n || 1) / 10));
    return `${number(Number((n / 1024 ** unit).toPrecision(3)))} ${['bytes', 'KiB', 'MiB', 'GiB'][unit]}`;
}

export const plural = (n, one) => `${number(n)} ${one}${n === 1 ? '' : 's'}`;

// As the command line writes it.
export function span(seconds) {
    const [size, unit] = seconds < 120 ? [1, 's'] : seconds < 7200 ? [60, 'min'] : seconds < 172800 ? [3600, 'h'] : [86400, 'days'];
    return `${number(Math.round(Math.max(0, seconds) / size))} ${unit}`;
}

// ---- Times are those of the reader. Sweden writes them as 2026-11-21 03:00:00.

const local = (time) => new Date(time).toLocaleString('sv');
export const clock = (time) => local(time).slice(11);
export const minutes = (time) => local(time).slice(0, 16);

// Its tooltip has it in UTC, to the millisecond.
export const time = (text) => (text ? h('time', {datetime: text, title: text}, local(text)) : '–');

export function zone() {
    const east = -new Date().getTimezoneOffset() / 60;
    return `UTC${east > 0 ? '+' : ''}${east || ''}`;
}

// ---- Compound elements.

// A table that turns into cards on a phone, so it says its roles. `columns`: {title, cell(row), kind}. `options`: key(row) keeps a row's
// identity over a refresh, mark(row) is its class, `header` the column that names it, `kind` a class.
export function table(caption, columns, rows, options = {}) {
    const cell = (row, c, i) => (i === options.header
        ? h('th', {role: 'rowheader', scope: 'row', class: c.kind, 'data-label': c.title}, c.cell(row))
        : h('td', {role: 'cell', class: c.kind, 'data-label': c.title}, c.kind?.startsWith('name') ? h('span', c.cell(row)) : c.cell(row)));
    return h('table', {role: 'table', class: options.kind}, h('caption.hidden', caption),
        h('thead', {role: 'rowgroup'}, h('tr', {role: 'row'}, columns.map((c) => h('th', {role: 'columnheader', scope: 'col', class: c.kind}, c.head || c.title)))),
        h('tbody', {role: 'rowgroup'}, rows.map((row) => h('tr', {role: 'row', 'data-key': options.key?.(row), class: options.mark?.(row)}, columns.map((c, i) => cell(row, c, i))))));
}

// Names and values; those without a value are left out.
export function facts(pairs) {
    return h('dl.facts', pairs.filter(([, what]) => what || what === 0).map(([name, what]) => h('div', h('dt', name), h('dd', what))));
}

// Offers a file that this page has made.
export function save(name, type, parts) {
    const href = URL.createObjectURL(new Blob(parts, {type}));
    h('a', {href, download: name}).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
}

// ---- A refresh changes only what differs. What the reader did stays: focus, scroll, open details, ticks, typed text.

const HANDLERS = ['onclick', 'onchange', 'onsubmit', 'oninput', 'ontoggle'];

function adopt(to, from) {
    if (to.nodeType !== 1) {
        if (to.data !== from.data) to.data = from.data;
        return;
    }
    for (const {name} of [...to.attributes]) if (!from.hasAttribute(name) && name !== 'open') to.removeAttribute(name);
    for (const {name, value} of from.attributes) if (to.getAttribute(name) !== value && name !== 'open') to.setAttribute(name, value);
    for (const name of HANDLERS) to[name] = from[name];
    if (to.type === 'checkbox' && to.closest('table')) to.checked = from.checked; // a tick of a row, which the view knows
    morph(to, [...from.childNodes]);
}

// Makes the children of `parent` equal to `wanted`. Nodes with a data-key are found again wherever they stand.
export function morph(parent, wanted) {
    const keyed = new Map([...parent.children].map((node) => [node.dataset.key, node]));
    let at = parent.firstChild;
    const next = () => [at, (at = at.nextSibling)][0];
    for (const node of wanted) {
        const key = node.dataset?.key;
        const old = key ? keyed.get(key) : at && !at.dataset?.key ? at : null;
        if (old?.nodeName === node.nodeName && old.type === node.type) {
            if (old === at) next();
            else parent.insertBefore(old, at);
            adopt(old, node);
        } else {
            parent.insertBefore(node, at);
            if (old && old === at) next().remove();
        }
    }
    while (at) next().remove();
}
