// Requeue and discard: a dialog that begins with a dry run, and the view of a run.
import {drop, get, post} from './api.js';
import {brief, h, heading, marked, number, plural, span, table} from './dom.js';
import {link} from './link.js';

const MANY = 100; // above this the number must be typed
const PAST = {requeue: 'put back', discard: 'discarded'};
const verbOf = (action) => (action === 'requeue' ? 'Requeue' : 'Discard');

let askDialog = null;
export const isAsking = () => Boolean(askDialog);

const counted = (title, rows) => rows.length > 0 && table('Jobs', [{title, cell: (r) => r[0]}, {title: 'Jobs', kind: 'number', cell: (r) => number(r[1])}], rows, {kind: 'small', header: 0});

const answerPlan = (plan, action) => [
    h('p', h('b', plan.jobs ? `${plural(plan.jobs, 'job')} would be ${PAST[action]}.` : 'Nothing is left to do.'), plan.answered > 0 && ` ${number(plan.answered)} answered before.`,
        plan.earlier > 0 && ` Left out: ${plural(plan.earlier, 'earlier row')} of the same jobs.`),
    counted('Queue', plan.queues.map((q) => [q.queue, q.jobs])),
];

// Why the sidecar refuses, and what to do.
function answerRefusal(problem, again) {
    const hint = {401: ' Sign in again.', 403: ' Your token lacks the right "act".', 429: ` Wait ${span(problem.wait || 1)}.`}[problem.status];
    return [h('span', marked(problem.message), '.', hint, ' '), h('button', {type: 'button', onclick: again}, 'Count again')];
}

// `what`: {action, refs | filter, again}. `from`: the address to come back to.
export function ask(session, what, from) {
    const verb = verbOf(what.action), plan = h('div', {role: 'status'}), refused = h('p.fault', {role: 'alert'});
    const to = h('select', {onchange: count}, h('option', {value: ''}, 'its own queue'), session.queues.map((q) => h('option', {value: q}, q)));
    const rate = h('input', {placeholder: 'such as 50/s', pattern: '[0-9]+/s'}), because = h('input.long', {maxlength: 500});
    const again = h('input', {type: 'checkbox', checked: what.again, onchange: count}), typed = h('input', {inputmode: 'numeric', autocomplete: 'off', oninput: check});
    const confirm = h('button.main', verb), numeral = h('b');
    const label = (text, input) => h('label', text, ' ', input);
    const typing = label(['Type ', numeral, ' to confirm'], typed), anew = label('Also those answered before', again);
    let found = null;

    const body = (more) => ({action: what.action, ...(what.filter ? {filter: what.filter} : {refs: what.refs}), ...(to.value && {to: to.value}), ...(again.checked && {again: true}), ...more});

    function check() {
        confirm.disabled = !found?.jobs || (found.jobs > MANY && typed.value.replace(/\D/g, '') !== String(found.jobs));
    }

    async function count() {
        found = null;
        check();
        refused.replaceChildren();
        plan.replaceChildren('Dry run: counting…');
        try {
            found = await post('answers', body({dry_run: true}));
            plan.replaceChildren(h('div', answerPlan(found, what.action)));
            confirm.textContent = `${verb} ${plural(found.jobs, 'job')}`;
            numeral.textContent = found.jobs;
            typing.hidden = found.jobs <= MANY;
            anew.hidden = !found.answered && !what.again;
            check();
        } catch (problem) {
            plan.replaceChildren();
            refused.replaceChildren(...answerRefusal(problem, count));
        }
    }

    async function run(event) {
        event.preventDefault();
        confirm.disabled = true;
        try {
            const {id} = await post('answers', body({...(rate.value && {rate: rate.value}), ...(because.value && {because: because.value}), ...(what.filter && {plan: found.plan})}));
            askDialog.close();
            sessionStorage.setItem(id, from);
            location.hash = `#/answer/${encodeURIComponent(id)}`;
        } catch (problem) {
            refused.replaceChildren(...answerRefusal(problem, count));
        }
    }

    askDialog = h('dialog', {'aria-labelledby': 'ask', onclose: () => { askDialog.remove(); askDialog = null; }},
        h('h2', {id: 'ask'}, `${verb} ${what.filter ? 'all that match' : plural(what.refs.length, 'failure')}`), plan, refused,
        h('form', {onsubmit: run}, what.action === 'requeue' && label('Into', to), what.refs?.length !== 1 && label('At most', rate), label('Why (the log keeps it)', because), anew, typing,
            h('div.actions', confirm, h('button', {type: 'button', onclick: () => askDialog.close()}, 'Cancel'))));
    document.body.append(askDialog);
    askDialog.showModal();
    count();
}

// ---- The run.

const STATES = {running: 'is under way', done: 'is done', stopped: 'was stopped', failed: 'has failed', lost: 'is lost'};

const answerItems = (a) => a.items.length > 0 && h('details', {open: a.jobs <= 20, 'data-key': 'items'}, h('summary', a.items.length < a.done && 'The last ', plural(a.items.length, 'result')), table('Results', [
    {title: 'Ref', cell: (i) => link(['failure', i.ref], {}, h('code', i.ref))}, {title: 'Queue', kind: 'name', cell: (i) => brief(i.queue, 60)}, {title: 'Result', cell: (i) => i.result}, {title: 'Why', kind: 'wide', cell: (i) => brief(i.detail)},
], a.items, {key: (i) => i.ref, header: 0}));

export const answer = {
    title: () => 'Answer',
    right: 'act',
    // An answer that has ended stays so.
    every: (a) => a && ({running: 500, lost: 5000}[a.state] || 1e9),
    load: (route, signal) => get(`answers/${encodeURIComponent(route.arg)}`, null, signal),
    show: (a, route, {redraw, say}) => [
        heading(`${verbOf(a.action)} of ${plural(a.jobs, 'job')} ${STATES[a.state]}`),
        a.error && h('p.fault', {role: 'alert'}, a.error),
        h('p', {role: 'status'}, `${number(a.done)} of ${number(a.jobs)} tried`, `, ${number(a.results.done)} ${PAST[a.action]}`, a.by && `, by ${a.by}`, a.because && `: ${a.because}`),
        h('progress', {max: a.jobs || 1, value: a.done, 'aria-label': 'Progress'}),
        h('div.actions', a.state === 'running' && h('button.main', {onclick: () => drop(`answers/${encodeURIComponent(route.arg)}`).then(redraw, (problem) => say(problem.message))}, 'Stop'),
            h('a', {href: sessionStorage.getItem(route.arg) || '#/failures'}, 'Back to the failures')),
        a.state === 'stopped' && h('p', 'What was sent is done. Start it again to go on: no job is put back twice.'),
        counted('Result', Object.entries(a.results).filter((r) => r[1])), answerItems(a),
    ],
};
