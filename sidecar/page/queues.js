// The views "Queues" and "Queue".
import {get, part} from './api.js';
import {configOfQueue} from './config.js';
import {brief, bytes, facts, h, heading, marked, none, number, plural, span, table, time} from './dom.js';
import {failureTable} from './failures.js';
import {link} from './link.js';
import {plot, sparkline} from './plot.js';

const RANKS = ['fault', 'warning', 'note'];

// ---- Sparklines: each is read while its row is in view, once a minute.

const histories = new Map(); // queue -> {at, data}
const inView = new Set();
let reading = false;

const watcher = new IntersectionObserver((entries) => {
    for (const {isIntersecting, target} of entries) inView[isIntersecting ? 'add' : 'delete'](target.dataset.history);
    sparksRead();
});

const spark = (queue) => (histories.get(queue)?.data ? [sparkline(histories.get(queue).data)] : []);

async function sparksRead() {
    if (reading) return;
    reading = true;
    for (const queue of inView) {
        if (Date.now() - (histories.get(queue)?.at || 0) < 60000) continue;
        const data = await get('history', {queue, since: '1h'}).catch(() => histories.get(queue)?.data);
        histories.set(queue, {at: Date.now(), data});
        for (const cell of document.querySelectorAll('[data-history]')) if (cell.dataset.history === queue) cell.replaceChildren(...spark(queue));
    }
    reading = false;
}

// ---- Findings. Without the right `look` they have no texts.

const finding = (f, here) => h('li', {class: f.severity, 'data-key': f.code + f.queues}, h('b.severity', f.severity), h('div',
    h('p', marked(f.what || [f.code.replaceAll('_', ' '), f.queues.join(', ')].filter(Boolean).join(': '))), f.why && h('p.why', marked(f.why)), f.next && h('p.next', f.next.startsWith('queue-sidecar ') ? h('code', f.next) : marked(f.next)),
    !here && f.queues.length < 9 && h('p.go', f.queues.map((q) => link(['queue', q], {}, q)))));

const findings = (list, here) => list.length > 0 && h('ul.findings', {'aria-label': 'Findings'}, list.map((f) => finding(f, here)));

function queueVerdict(status) {
    const counts = RANKS.map((s) => [s, status.findings.filter((f) => f.severity === s).length]).filter((c) => c[1]);
    return h('p.verdict', {class: status.well ? 'well' : counts[0]?.[0]}, [status.well ? 'All is well' : 'Not well', counts.map(([s, n]) => plural(n, s)).join(', ')].filter(Boolean).join(': '));
}

// ---- The table of queues: trouble first.

function queueOrder(status) {
    const rank = new Map();
    for (const f of status.findings) for (const q of f.queues) rank.set(q, Math.min(rank.get(q) ?? 9, RANKS.indexOf(f.severity)));
    const of = (q) => rank.get(q.name) ?? 9, jobs = (q) => q.ready + q.delayed + q.in_progress, failed = (q) => q.failed_last_hour || 0;
    const sorted = [...status.queues].sort((a, b) => of(a) - of(b) || failed(b) - failed(a) || jobs(b) - jobs(a));
    const idle = (q) => !(jobs(q) || failed(q) || q.retried_last_hour || q.fault || rank.has(q.name));
    return [sorted.filter((q) => !idle(q)), sorted.filter(idle), rank];
}

const nextDue = (q, now) => (q.overdue_seconds > 1 ? h('span.warning', `${span(q.overdue_seconds)} late`) : q.next_due ? `in ${span((Date.parse(q.next_due) - now) / 1000)}` : '–');
const oldest = (q) => (q.oldest_in_progress_seconds == null ? '–' : span(q.oldest_in_progress_seconds));
const plus = (q, name) => number(q[name]) + (q.last_hour_is_partial ? '+' : '');

function queueColumns(status, session) {
    const numeral = (title, of, cell) => ({title, of, kind: 'number', cell: cell || ((q) => number(q[of]))});
    return [
        {title: 'Queue', cell: (q) => link(['queue', q.name], {}, q.name)}, numeral('Delayed', 'delayed'), numeral('Next due', 'next_due', (q) => nextDue(q, Date.parse(status.at))), numeral('Ready', 'ready'),
        numeral('In progress', 'in_progress'), numeral('Oldest', 'oldest_in_progress_seconds', oldest), numeral('Retried', 'retried_last_hour', (q) => plus(q, 'retried_last_hour')),
        numeral('Failed', 'failed_last_hour', (q) => (q.failed_last_hour && session.may('look') ? link(['failures'], {queue: q.name, since: '1h'}, plus(q, 'failed_last_hour')) : plus(q, 'failed_last_hour'))),
        {title: 'Audit', of: 'audit_lag_seconds', cell: (q) => (q.audit_lag_seconds == null ? '–' : q.audit_lag_seconds ? `${span(q.audit_lag_seconds)} behind` : 'copied')},
        {title: 'Last hour', kind: 'spark', cell: (q) => h('span', {'data-history': q.name}, spark(q.name))},
    ].filter((c) => !c.of || status.queues.some((q) => q[c.of] !== undefined));
}

function queuePlaces({redis, locks, audit_log: log}) {
    const lock = locks?.[0];
    return lock && facts([
        ['Redis', `${redis.server || ''} at ${redis.address}${redis.memory_bytes ? ', ' + bytes(redis.memory_bytes) : ''}`],
        ['Leader', lock.leader || 'none'], ['Standby', lock.standbys.map((s) => s.instance).join(', ')], ['Log', [log.path, log.error && `: ${log.error}`]],
    ]);
}

// While Redis does not answer, the numbers of the last answer stay, in grey.
let lastKnown = null;

async function statusRead(route, signal) {
    const status = await get('status', null, signal);
    const away = status.redis?.reachable === false || status.findings.some((f) => f.code === 'redis_unreachable');
    if (!away) lastKnown = status;
    return away ? {...status, away, queues: lastKnown?.queues || [], since: lastKnown?.at} : status;
}

const stale = (status) => status.away && ['Redis does not answer. ', status.since && ['The numbers are of ', time(status.since), '.']];

export const queues = {
    title: () => 'Queues',
    load: statusRead,
    stale,
    show(status, route, {session, again}) {
        const find = route.query.get('find') || '';
        const match = {...status, queues: status.queues.filter((q) => q.name.includes(find))}, [busy, idle, rank] = queueOrder(match), columns = queueColumns(status, session);
        const rows = (list) => table('Queues', columns, list, {key: (q) => q.name, header: 0, kind: 'queues', mark: (q) => (q.fault ? 'fault' : RANKS[rank.get(q.name)])});
        return [
            heading('Queues'), queueVerdict(status), findings(status.findings),
            status.queues.length > 20 && h('form.find', {onsubmit: (e) => e.preventDefault()}, h('label', 'Queue ', h('input', {type: 'search', value: find, oninput: (e) => again({find: e.target.value})})), `${number(match.queues.length)} of ${number(status.queues.length)}`),
            h('div', {class: status.away ? 'old' : null}, busy.length > 0 && rows(busy), idle.length > 3 && !find ? h('details.idle', {'data-key': 'idle'}, h('summary', plural(idle.length, 'idle queue')), rows(idle)) : idle.length > 0 && rows(idle)),
            !match.queues.length && none(find ? 'No queue has this in its name.' : status.away ? 'Nothing is known of the queues yet.' : 'No queue is configured.'), queuePlaces(status),
        ];
    },
    shown() {
        watcher.disconnect();
        inView.clear();
        for (const cell of document.querySelectorAll('[data-history]')) watcher.observe(cell);
    },
};

// ---- One queue.

function jobsTable(list, route) {
    if (list.problem) return none(list.problem.message);
    const page = (cursor, text) => link(['queue', route.arg], {...route.filters, cursor}, text);
    const columns = [
        {title: 'Job', of: 'job_id', kind: 'name', cell: (j) => brief(j.job_id, 40)}, {title: 'Due', of: 'due_at', cell: (j) => time(j.due_at)}, {title: 'Since', of: 'started_at', cell: (j) => time(j.started_at)},
        {title: 'Type', of: 'type', kind: 'name', cell: (j) => brief(j.type, 40)}, {title: 'Worker', of: 'worker', kind: 'name', cell: (j) => brief(j.worker, 40)}, {title: 'Retries', of: 'retries', kind: 'number', cell: (j) => number(j.retries)},
        {title: 'Size', of: 'size', kind: 'number', cell: (j) => bytes(j.size)}, {title: 'Payload', of: 'payload', kind: 'wide', cell: (j) => (j.payload_encoding === 'base64' ? 'bytes, not text' : brief(j.payload))},
    ].filter((c) => list.items.some((job) => job[c.of]));
    return [list.may_lack && none('The list changed: jobs may be missing.'), list.items.length ? table('Jobs', columns, list.items) : none(list.next ? 'None so far.' : 'There are none.'),
        h('p.pages', route.query.get('cursor') && page('', 'From the beginning'), list.next && page(list.next, 'More'))];
}

function queuePlots(history) {
    if (history.problem || !history.at?.length) return none(history.problem?.message || 'No history was recorded yet.');
    return h('div.plots', plot('Jobs', history.at, ['ready', 'delayed', 'in_progress'].map((name) => ({name: name.replace('_', ' '), values: history[name]}))),
        plot('Lateness', history.at, [{name: 'late', values: history.late_seconds}], ' s'), plot('Failures', history.at, [{name: 'failures', values: history.failures, bars: true}], ' per min'));
}

export const queue = {
    title: (route) => route.arg,
    stale,
    async load(route, signal, session) {
        const queue = route.arg, {state = 'ready', text, cursor} = route.filters;
        const look = (path, query) => session.may('look') && part(get(path, query, signal));
        const [status, history, jobs, failures, config] = await Promise.all([
            statusRead(route, signal), part(get('history', {queue}, signal)),
            look('jobs', {queue, state, limit: 20, ...(text && {text}), ...(cursor && {cursor})}), look('failures', {queue, limit: 5}), look('config'),
        ]);
        return {...status, history, jobs, failures, config, of: status.queues.find((q) => q.name === queue)};
    },
    show(data, route, {session, again}) {
        const name = route.arg, q = data.of, now = Date.parse(data.at), state = route.filters.state || 'ready';
        if (!q) return [heading(name), none('The config in effect has no queue of this name.')];
        const search = (e) => {
            e.preventDefault();
            again({text: new FormData(e.target).get('text'), cursor: ''});
        };
        const section = (title, answer, show) => h('section', h('h2', title), answer.problem ? none(answer.problem.message) : show(answer));
        return [
            heading(name), findings(data.findings.filter((f) => f.queues.includes(name)), true),
            h('div', {class: data.away ? 'old' : null}, facts([['Ready', number(q.ready)], ['Delayed', number(q.delayed)], ['Next due', nextDue(q, now)], ['In progress', number(q.in_progress)], ['Oldest', oldest(q)],
                ['Retried, last hour', plus(q, 'retried_last_hour')], ['Failed, last hour', plus(q, 'failed_last_hour')], ['Dialect', q.dialect], ['Fault', q.fault && h('span.fault', q.fault)]])),
            h('section', h('h2', 'The last day'), queuePlots(data.history)),
            session.may('look') && [
                h('section', h('h2', 'Jobs'), h('nav.tabs', {'aria-label': 'State of the jobs'}, ['delayed', 'ready', 'in-progress'].map((s) => link(['queue', name], {...route.filters, state: s, cursor: ''}, s.replace('-', ' '), s === state))),
                    h('form.find', {onsubmit: search}, h('label', 'Text ', h('input', {name: 'text', type: 'search', value: route.filters.text})), h('button', 'Search')), jobsTable(data.jobs, route)),
                section('Failures', data.failures, (list) => [list.items.length ? failureTable(list.items) : none('The log has none.'), link(['failures'], {queue: name}, 'All failures of this queue')]),
                section('Config', data.config, (answer) => configOfQueue(answer.items, name)),
            ],
        ];
    },
};
