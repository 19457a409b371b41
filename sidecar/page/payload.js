// Bytes and JSON of unknown origin, for a reader.
import {bytes, h, number, plural, lines} from './dom.js';

const MOST_TEXT = 65536, MOST_JSON = 1 << 20, HEX_ROWS = 256;

// Every token of JSON, so that numbers stay as they are written and a name that comes twice is shown twice: JSON.parse would lose both.
const TOKEN = /\s*("(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+)/gsy;

// Nodes {key, text} or {key, open, children}. No recursion: JSON may be as deep as it is long.
function payloadTree(text) {
    const root = {children: []};
    const path = [root];
    let key = null, last = null;
    TOKEN.lastIndex = 0;
    for (let match; (match = TOKEN.exec(text)); ) {
        const token = match[1];
        if (token === ',' || token === ':') {
            if (token === ':') [key, last] = [last.text, path.at(-1).children.pop() && null];
        } else if (token === '}' || token === ']') {
            path.pop();
        } else {
            last = token === '{' || token === '[' ? {key, open: token, children: []} : {key, text: token};
            path.at(-1).children.push(last);
            if (last.open) path.push(last);
            key = null;
        }
    }
    return root.children[0];
}

function isJson(text) {
    try {
        JSON.parse(text);
        return true;
    } catch {
        return false;
    }
}

// A string is shown without its escapes, except those of what cannot be seen.
function payloadScalar(text) {
    if (text[0] !== '"') return h('span.number', text);
    return h('span.string', '"', lines(JSON.parse(text)), '"');
}

const payloadKey = (node) => node.key != null && [h('span.key', JSON.parse(node.key)), ': '];

// The children of a folded node are made when it is opened.
function payloadBranch(node, open) {
    if (!node.children) return h('div', payloadKey(node), payloadScalar(node.text));
    const close = node.open === '{' ? '}' : ']', count = node.children.length;
    if (!count) return h('div', payloadKey(node), node.open + close);
    const inside = h('div.inside');
    const fill = () => { if (!inside.firstChild) payloadMore(inside, node.children, 0); };
    if (open) fill();
    return h('details', {open, ontoggle: (e) => e.target.open && fill()},
        h('summary', payloadKey(node), `${node.open}…${close} `, h('span.none', plural(count, node.open === '{' ? 'member' : 'item'))), inside);
}

function payloadMore(parent, nodes, from) {
    const to = Math.min(nodes.length, from + 200);
    for (let i = from; i < to; i++) parent.append(payloadBranch(nodes[i], false));
    if (to < nodes.length) parent.append(h('button', {onclick: (e) => { e.target.remove(); payloadMore(parent, nodes, to); }}, `${number(nodes.length - to)} more`));
}

function payloadHex(data) {
    const rows = [];
    for (let at = 0; at < data.length && rows.length < HEX_ROWS; at += 16) {
        const row = [...data.subarray(at, at + 16)];
        rows.push(`${at.toString(16).padStart(8, '0')}  ${row.map((b) => b.toString(16).padStart(2, '0')).join(' ').padEnd(47)}  ${row.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join('')}`);
    }
    const hidden = data.length - HEX_ROWS * 16;
    return [h('pre.bytes', {tabindex: 0}, lines(rows.join('\n'))), hidden > 0 && h('p.none', `${bytes(hidden)} more are in the download.`)];
}

function payloadText(text) {
    const hidden = text.length - MOST_TEXT;
    return [h('pre.bytes', {tabindex: 0}, lines(text.slice(0, MOST_TEXT))), hidden > 0 && h('p.none', `${plural(hidden, 'character')} more are in the download.`)];
}

export function payloadView(text, encoding) {
    if (encoding === 'base64') return payloadHex(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
    if (text.length > MOST_JSON || !/^\s*[{[]/.test(text) || !isJson(text)) return payloadText(text);
    return [h('div.json', {'data-key': 'json'}, payloadBranch(payloadTree(text), true)), h('details', {'data-key': 'raw'}, h('summary', 'As it is'), payloadText(text))];
}
