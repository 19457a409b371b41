// The view "Failures": filters, counts, pages, ticks, export.
import {get, part} from './api.js';
import {ask} from './answer.js';
import {brief, h, heading, minutes, none, number, plural, save, span, svg, table, time, zone} from './dom.js';
import {address, link} from './link.js';

const REASONS = ['retries_exhausted', 'reported', 'alive_timeout', 'unreadable', 'invalid_target', 'worker_failed', 'dead_letter', 'cancelled'];
const FILTERS = ['text', 'queue', 'reason', 'state', 'job', 'type', 'worker', 'since', 'until', 'ignore_case'];
const PAGE = 50, SLICES = 300;

const ticked = new Set(); // refs

// ---- Times: the clock and the midnight of the reader count, not those of the server.

function instant(text) {
    if (text !== 'today' && text !== 'yesterday') return text;
    return new Date(new Date().setHours(text === 'today' ? 0 : -24, 0, 0, 0)).toISOString();
}

// A local time, as the address keeps it: it means the same in every zone.
function written(text) {
    const [, day, clock = '00:00'] = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?$/.exec(text) || [];
    return day ? new Date(`${day}T${clock}`).toISOString() : text;
}

const readable = (text) => (/^\d{4}-.*Z$/.test(text) ? minutes(text) : text);
const isTime = (name) => name === 'since' || name === 'until';

function filterOf(route) {
    const given = FILTERS.map((name) => [name, route.query.get(name)]).filter((pair) => pair[1]);
    return Object.fromEntries(given.map(([name, text]) => [name, isTime(name) ? instant(text) : text]));
}

// ---- Reading.

let stopped = false; // by the reader
let long = false; // a search of several seconds is not repeated by itself

// A search answers after a second with what it has; it goes on here until there is a page of rows.
async function failuresRead(filter, cursor, signal, progress) {
    const found = {items: [], next: cursor};
    stopped = false;
    for (let slice = 0; slice < SLICES && !stopped; slice++) {
        const answer = await get('failures', {...filter, limit: PAGE - found.items.length, ...(found.next && {cursor: found.next})}, signal);
        Object.assign(found, answer, {items: [...found.items, ...answer.items]});
        if (!answer.searched_to || !answer.next || found.items.length >= PAGE) break;
        long = true;
        progress({...found, searching: true});
    }
    return found;
}

let groupsRead = {}; // counts read much of the log: not every 5 s

async function failuresCount(filter, by, signal, progress) {
    const key = JSON.stringify([filter, by]);
    if (groupsRead.key === key && Date.now() - groupsRead.at < 30000) return groupsRead.groups;
    const items = new Map();
    let groups = {}, dropped = 0;
    for (let slice = 0; slice < SLICES && !stopped; slice++) {
        groups = await part(get('failures/groups', {...filter, by, ...(groups.next && {cursor: groups.next})}, signal));
        for (const g of groups.items || []) {
            const sum = items.get(g[by]);
            items.set(g[by], sum ? {...sum, failures: sum.failures + g.failures, open: sum.open + g.open} : g);
        }
        groups.items = [...items.values()];
        groups.dropped_failures = dropped += groups.dropped_failures || 0;
        if (by !== 'hour') groups.items.sort((a, b) => b.failures - a.failures);
        if (!groups.next) break;
        long = true;
        progress(groups);
    }
    groupsRead = {key, at: Date.now(), groups};
    return groups;
}

// ---- Counts. Each leads to its failures.

const longest = (error) => error.split('#').map((s) => s.trim()).sort((a, b) => b.length - a.length)[0]; // groups write # for a number

const GROUPS = {
    __proto__: null,
    reason: (g) => [g.reason, {reason: g.reason}],
    queue: (g) => [g.queue, {queue: g.queue}],
    error: (g) => [brief(g.error || 'no error', 120), {text: longest(g.error)}],
    hour: (g) => [minutes(g.hour), {since: g.hour, until: new Date(Date.parse(g.hour) + 3600000).toISOString()}],
};

function failuresGroups(groups, route, by) {
    const items = groups.items || [], most = Math.max(1, ...items.map((g) => g.failures)), sum = (name) => items.reduce((n, g) => n + g[name], 0);
    const bar = (width, kind) => svg('rect', {width: (width / most) * 100, height: 8, class: kind});
    return h('details', {open: true, 'data-key': 'counts'},
        h('summary', groups.problem ? 'Counts' : `${plural(sum('failures') + groups.dropped_failures, 'failure')}, ${number(sum('open'))} open${groups.next || groups.dropped_failures ? ', at least' : ''}`),
        h('nav.tabs', {'aria-label': 'Counts'}, Object.keys(GROUPS).map((word) => link(['failures'], {...route.filters, by: word}, `by ${word}`, word === by))),
        groups.problem ? none(groups.problem.message) : items.length > 0 && h('div.scroll', {tabindex: 0, role: 'region', 'aria-label': 'Counts'}, table(`Failures by ${by}`, [
            {title: by, kind: 'wide', cell: (g) => { const [text, more] = GROUPS[by](g); return link(['failures'], {...route.filters, ...more, cursor: ''}, text); }},
            {title: 'failures', kind: 'number', cell: (g) => number(g.failures)}, {title: 'open', kind: 'number', cell: (g) => number(g.open)},
            {title: 'share', kind: 'share', cell: (g) => svg('svg', {class: 'bar', viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': true}, bar(g.failures), bar(g.open, 'open'))},
            {title: 'last', cell: (g) => time(g.last)},
        ], items.slice(0, 200), {header: 0})));
}

// ---- Rows.

export const stateOf = (row) => h(`span.state.${row.state}`, row.state === 'failed' ? 'open' : row.state || row.kind);

// A digest is known by its beginning.
export const jobName = (id, most = 30) => brief(id, /^\w{64}$/.test(id) ? 12 : most);

// Base64 stands for bytes that are no text.
export const asText = (text, encoding) => (encoding === 'base64' ? new TextDecoder().decode(Uint8Array.from(atob(text), (c) => c.charCodeAt())) : text);

export function failureTable(rows, tick) {
    const box = (label, on, change) => h('input', {type: 'checkbox', 'aria-label': label, checked: on, onchange: (e) => change(e.target.checked)});
    const has = (row) => ticked.has(row.ref);
    return table('Failures', [
        ...(tick ? [{title: 'Ticked', kind: 'tick', head: box('Tick all', rows.length > 0 && rows.every(has), (on) => tick(rows, on)), cell: (r) => box(`Tick ${r.ref}`, has(r), (on) => tick([r], on))}] : []),
        {title: 'Ref', cell: (r) => link(['failure', r.ref], {}, h('code', r.ref))},
        {title: `Failed at (${zone()})`, cell: (r) => time(r.at)},
        {title: 'Queue', kind: 'name', cell: (r) => brief(r.queue, 40)},
        {title: 'Reason', kind: 'long', cell: (r) => r.reason},
        {title: 'State', cell: stateOf},
        {title: 'Tries', kind: 'number', cell: (r) => number(r.attempts)},
        {title: 'Job', kind: 'name', cell: (r) => jobName(r.job_id)},
        {title: 'Error, else payload', kind: 'wide', cell: (r) => brief(r.error ? asText(r.error, r.error_encoding) : asText(r.payload || '', r.payload_encoding))},
    ], rows, {key: (r) => r.ref, kind: 'failures', header: tick ? 1 : 0});
}

// ---- Export of what is shown.

function csv(rows) {
    const names = [...new Set(rows.flatMap(Object.keys))];
    // A ' before what a spreadsheet would run if a cell began there: behind ; too, where that separates cells.
    const cell = (value) => `"${typeof value === 'string' ? value.replace(/(^|[;|\t\r\n])[ "]*(?=[=+\-@])/g, "$&'").replaceAll('"', '""') : value ?? ''}"`;
    return [names, ...rows.map((r) => names.map((n) => r[n]))].map((r) => r.map(cell).join() + '\r\n');
}

const failuresExport = (rows) => rows.length > 0 && h('span', 'Save what is shown: ',
    h('button', {onclick: () => save('failures.jsonl', 'application/jsonl', rows.map((r) => JSON.stringify(r) + '\n'))}, 'JSON lines'), ' ', h('button', {onclick: () => save('failures.csv', 'text/csv', csv(rows))}, 'CSV'));

// The log that the rows are from: nobody should take half of it for the whole.
function logNote(log) {
    const late = log?.lag_seconds > 60;
    return log && h('p.log', {class: log.open_gaps || late ? 'warning' : null}, 'From the audit log ', h('code', log.instance), log.oldest && [', since ', time(log.oldest)],
        log.open_gaps > 0 && `, with ${plural(log.open_gaps, 'gap')}: failures may be missing`, late && `, ${span(log.lag_seconds)} behind: the newest are missing`);
}

// ---- What the reader can do.

function failuresSubmit(event) {
    event.preventDefault();
    location.hash = address(['failures'], Object.fromEntries([...new FormData(event.target)].map(([name, text]) => [name, isTime(name) ? written(text.trim()) : text.trim()])));
}

function failuresForm(route, session) {
    const now = (name) => route.query.get(name) || '';
    const field = (name, label, props) => h('label', label, h('input', {name, value: isTime(name) ? readable(now(name)) : now(name), ...props}));
    const choice = (name, label, words) => h('label', label, h('select', {name}, [['', 'any'], ...words].map(([word, text]) => h('option', {value: word, selected: word === now(name)}, text))));
    const hint = {placeholder: '2h, 7d, today', title: `An age, today, yesterday, or 2026-11-21 03:00 (${zone()})`};
    return h('form.filters', {role: 'search', onsubmit: failuresSubmit, 'data-key': route.hash},
        field('text', `Text in error${session.may('payloads') ? ' or payload' : ''}`, {type: 'search', class: 'long'}), field('queue', 'Queue'),
        choice('reason', 'Reason', REASONS.map((r) => [r, r])), choice('state', 'State', [['failed', 'open'], ['requeued', 'requeued'], ['discarded', 'discarded']]),
        field('job', 'Job id'), field('type', 'Type'), field('worker', 'Worker'), field('since', 'From', hint), field('until', 'Until', hint),
        h('label.box', h('input', {type: 'checkbox', name: 'ignore_case', value: 'true', checked: now('ignore_case') === 'true'}), 'Ignore case'),
        h('input', {type: 'hidden', name: 'by', value: now('by')}), h('span', h('button.main', 'Search'), ' ', link(['failures'], {}, 'Clear')));
}

function failuresActions(data, route, session, redraw) {
    const refs = [...ticked], filter = {since: '1970-01-01', ...filterOf(route)}; // without a filter: all
    const button = (action, what, text) => h('button', {disabled: what.refs && !refs.length, onclick: () => ask(session, {action, ...what}, route.hash)}, text);
    return session.may('act') && refs.length + data.items.length > 0 && h('div.actions', {role: 'group', 'aria-label': 'Requeue or discard'},
        `${plural(refs.length, 'row')} ticked:`, button('requeue', {refs}, 'Requeue…'), button('discard', {refs}, 'Discard…'), refs.length > 0 && h('button', {onclick: () => { ticked.clear(); redraw(); }}, 'Untick'),
        h('span.gap', 'All that match:'), button('requeue', {filter}, 'Requeue all…'), button('discard', {filter}, 'Discard all…'));
}

function failuresPages(data, route) {
    if (data.searching) return h('p', {role: 'status'}, 'Searching: back to ', time(data.searched_to), ' so far ', h('button', {onclick: () => { stopped = true; }}, 'Stop'));
    const cursor = route.query.get('cursor');
    return h('p.pages', data.searched_to && h('span', 'Searched back to ', time(data.searched_to)), cursor && link(['failures'], {...route.filters, cursor: ''}, 'Newest'),
        data.next ? link(['failures'], {...route.filters, cursor: data.next}, 'Older') : data.items.length > 0 && h('span.none', 'No older ones'));
}

export const failures = {
    title: () => 'Failures',
    right: 'look',
    async load(route, signal, session, progress) {
        const filter = filterOf(route), by = GROUPS[route.query.get('by')] ? route.query.get('by') : 'reason';
        const found = await failuresRead(filter, route.query.get('cursor'), signal, progress);
        return {...found, by, groups: await failuresCount(filter, by, signal, (groups) => progress({...found, by, groups}))};
    },
    busy: () => (ticked.size ? `${plural(ticked.size, 'row')} ticked` : long && 'a long search'),
    form: failuresForm, // to mend a filter that is refused
    left() {
        ticked.clear();
        groupsRead = {};
        long = false;
    },
    show(data, route, {session, redraw}) {
        const tick = session.may('act') && ((rows, on) => {
            for (const {ref} of rows) ticked[on ? 'add' : 'delete'](ref);
            redraw();
        });
        return [
            heading('Failures'), failuresForm(route, session), data.groups && failuresGroups(data.groups, route, data.by), failuresActions(data, route, session, redraw),
            data.items.length ? failureTable(data.items, tick) : none(data.next ? 'Nothing found so far.' : Object.keys(filterOf(route)).length ? 'No failure matches.' : 'No job has failed.'),
            failuresPages(data, route), h('div.foot', failuresExport(data.items), logNote(data.log)),
        ];
    },
};
