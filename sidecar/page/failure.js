// The view "Failure": all of one event.
import {blob, get} from './api.js';
import {ask} from './answer.js';
import {brief, bytes, facts, h, heading, none, number, save, table, time} from './dom.js';
import {asText, jobName, stateOf} from './failures.js';
import {link} from './link.js';
import {payloadView} from './payload.js';

const failureNote = (what, at, by, why) => at && h('p.answer', h('b', what, ' '), time(at), ' by ', by, why && `: ${why}`);

function failureButtons(f, session, route) {
    if (!session.may('act') || f.kind !== 'failed') return null;
    const again = f.state !== 'failed', button = (action, text) => h('button', {class: !again && action === 'requeue' && 'main', onclick: () => ask(session, {action, refs: [f.ref], again}, route.hash)}, text);
    return h('div.actions', !f.erased_at && button('requeue', again ? 'Requeue again…' : 'Requeue…'), !again && button('discard', 'Discard…'));
}

function failurePayload(f, session, say) {
    const size = bytes(f.size);
    if (!session.may('payloads')) return none(`${size}. Your token lacks the right "payloads".`);
    if (!f.payload && f.size !== 0) return none(`${size}: erased, hidden by the config, or not recorded with this event.`);
    const load = async () => save(`${f.ref}.bin`, 'application/octet-stream', [await blob(`failures/${f.ref}/payload`)]);
    return [h('p', size, ' ', h('button', {onclick: () => load().catch((problem) => say(problem.message))}, 'Download')), f.payload_cut && none('More is in the download.'), payloadView(f.payload, f.payload_encoding)];
}

const failureHistory = (f) => table('History of the job', [
    {title: 'At', cell: (e) => time(e.at)}, {title: 'Kind', cell: (e) => e.kind},
    {title: 'Ref', kind: 'long', cell: (e) => (e.ref === f.ref ? h('code', e.ref, ' (this)') : link(['failure', e.ref], {}, h('code', e.ref)))},
    {title: 'By', kind: 'name', cell: (e) => brief(e.worker, 60)}, {title: 'Tries', kind: 'number', cell: (e) => number(e.attempts)}, {title: 'Reason', kind: 'name long', cell: (e) => brief(e.reason, 120)},
    {title: 'Error', kind: 'wide', cell: (e) => brief(asText(e.error, e.error_encoding))},
], f.history || [], {key: (e) => e.ref});

export const failure = {
    title: (route) => `Failure ${route.arg}`,
    right: 'look',
    load: (route, signal) => get(`failures/${encodeURIComponent(route.arg)}`, null, signal),
    show: (f, route, {session, say}) => [
        heading(f.kind === 'failed' ? 'Failure ' : 'Event ', h('code', f.ref), ' ', stateOf(f)), failureNote(f.state === 'discarded' ? 'Discarded' : 'Requeued', f.answered_at, f.answered_by, f.answer_reason),
        failureNote('Erased', f.erased_at, f.erased_by, f.erase_reason), failureButtons(f, session, route),
        facts([['Queue', link(['queue', f.queue], {}, f.queue)], ['Job', f.job_id && f.job_id !== f.ref && link(['failures'], {job: f.job_id}, jobName(f.job_id, 500))], ['Reason', f.reason], [f.kind === 'failed' ? 'Failed' : 'At', time(f.at)],
            ['Started', f.started_at && time(f.started_at)], ['Created', f.created_at && time(f.created_at)], ['Tries', number(f.attempts)], ['Type', f.type], ['Worker', f.worker], ['Group', f.group], ['Traceparent', f.traceparent && h('code.long', f.traceparent)], ['Dialect', f.dialect]]),
        f.error && h('section', h('h2', 'Error'), payloadView(f.error, f.error_encoding)),
        h('section', h('h2', 'Payload'), failurePayload(f, session, say)),
        h('section', h('h2', 'History of the job'), f.history_cut && none('The newest events.'), failureHistory(f)),
        h('details', {'data-key': 'ids'}, h('summary', 'Ids'), facts(['event', 'sha256', 'term', 'answers'].map((name) => [name, f[name] && h('code.long', f[name])]))),
    ],
};
