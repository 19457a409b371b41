// Chooses the view, reads it again, and tells of answers that do not come.
import {get, token} from './api.js';
import {answer, isAsking} from './answer.js';
import {config} from './config.js';
import {clock, h, heading, marked, morph} from './dom.js';
import {failure} from './failure.js';
import {failures} from './failures.js';
import {address, link, parse} from './link.js';
import {queue, queues} from './queues.js';

const EVERY_MS = 5000;
const VIEWS = {__proto__: null, queues, queue, failures, failure, config, answer};
const AREAS = {queue: 'queues', failure: 'failures', answer: 'failures'};
const [top_, notice, main, said] = ['top', 'notice', 'main', 'said'].map((id) => document.getElementById(id));

let route = parse(location.hash);
let session = null;
let shown = null; // {data, at}: the last answer of this view
let outage = null; // {since, problem}
let abort = null, timer = 0;

const say = (text) => said.replaceChildren(text);
const context = () => ({session, again, redraw, say});

// ---- What is shown.

function put(nodes, focus) {
    const wanted = nodes.flat(9).filter(Boolean);
    main.removeAttribute('aria-busy');
    if (!focus) return morph(main, wanted);
    main.replaceChildren(...wanted);
    scrollTo(0, 0);
    (main.querySelector('#token') || main.querySelector('h1')).focus({preventScroll: true});
}

function header() {
    const paused = shown && pause(), look = session?.may('look');
    const tab = (name, text) => link([name], {}, text, name === (AREAS[route.name] || route.name));
    morph(top_, [
        h('b', 'queue-sidecar', h('span.group', session?.group)), h('nav', {'aria-label': 'Views'}, tab('queues', 'Queues'), look && [tab('failures', 'Failures'), tab('config', 'Config')]),
        h('span.me', h('span.fresh', !shown || outage ? '' : paused ? `Paused: ${paused}` : `Updated ${clock(shown.at)}`), h('span', session?.name),
            token.get() ? h('button', {onclick: () => { token.drop(); begin(); }}, 'Sign out') : session?.tokens && !session.name && link(['sign-in'], {}, 'Sign in')),
    ]);
    main.classList.toggle('old', Boolean(outage && shown));
    const text = outage ? [h('b', outage.problem.status ? 'The sidecar cannot answer: ' : 'The sidecar does not answer. '), outage.problem.status > 0 && [marked(outage.problem.message), '. '],
        shown ? `What you see is of ${clock(shown.at)}. ` : `Since ${clock(outage.since)}. `, 'It is tried again by itself.'] : shown && VIEWS[route.name].stale?.(shown.data);
    morph(notice, text ? [h('p', text)] : []);
}

function draw(focus) {
    const view = VIEWS[route.name];
    document.title = `${view.title(route)} · ${session.group}`;
    put(view.show(shown.data, route, context()), focus);
    view.shown?.();
    header();
}

function redraw() {
    draw();
    schedule();
}

// ---- Messages in place of a view.

const message = (title, ...text) => [heading(title), h('p', text), link(['queues'], {}, 'Back to the queues')];

function refusal(problem) {
    if (problem.status === 401 && session?.name && !token.get()) return message('Your session has ended', 'Reload this page to sign in again.');
    if (problem.status === 401 || !session?.name && session?.tokens) {
        const had = token.get();
        token.drop();
        session = null;
        return signIn(had && 'This token is not accepted: it is wrong, or was replaced.');
    }
    if (problem.candidates) return [...message('More than one begins so', 'Choose one:'), h('ul', problem.candidates.map((c) => h('li', link(['failure', c.event], {}, h('code', c.ref || c.event)))))];
    return message({403: 'Not allowed', 404: 'Not found'}[problem.status] || 'The sidecar refuses this', marked(problem.message), '.', problem.nearest && [' Did you mean ', h('code', problem.nearest), '?']);
}

function signIn(why) {
    const submit = (event) => {
        event.preventDefault();
        token.set(new FormData(event.target).get('token').trim());
        session = null;
        if (route.name === 'sign-in') location.hash = '#/queues';
        else begin();
    };
    return [heading('Sign in'), why && h('p.warning', {role: 'alert'}, why),
        h('form.actions', {onsubmit: submit}, h('label', 'Token ', h('input', {type: 'password', name: 'token', id: 'token', required: true, autocomplete: 'current-password'})), h('button.main', 'Sign in')),
        h('p.none', 'Tokens stand in the file that ', h('code', 'http.token_file'), ' names. This tab keeps yours until it is closed.')];
}

// Why this session cannot see a view; null = it can.
function barred(view) {
    if (route.name === 'sign-in') return signIn();
    if (!view) return message('Not found', 'This address leads nowhere.');
    if (!view.right || session.may(view.right)) return null;
    if (session.tokens && !session.name) return signIn('This view needs a token.');
    return message('Not allowed', session.tokens ? `Your token lacks the right "${view.right}". The keeper of the token file can add it.` : 'Without a token file this page shows the queues alone: set http.token_file.');
}

// ---- Reading.

// Why nothing is read again now: what the reader works with must not move.
const pause = () => (document.hidden ? 'hidden' : isAsking() ? 'a dialog is open' : !getSelection().isCollapsed ? 'text is selected' : VIEWS[route.name]?.busy?.());

// Changes the filters in the address, without a step to walk back to.
function again(more) {
    history.replaceState(null, '', address([route.name, route.arg].filter(Boolean), {...route.filters, ...more}));
    route = parse(location.hash);
    if ('find' in more) redraw();
    else read();
}

function schedule() {
    clearTimeout(timer);
    timer = setTimeout(() => {
        header();
        if (pause()) schedule();
        else read();
    }, outage?.problem.wait * 1000 || !outage && VIEWS[route.name]?.every?.(shown?.data) || EVERY_MS);
}

function begin() {
    shown = session = null;
    read(true);
}

async function sessionRead(signal) {
    const s = await get('session', null, signal);
    session = {...s, queues: [], may: (right) => s.rights.includes(right)};
    if (session.may('act')) session.queues = (await get('status', null, signal)).queues.map((q) => q.name);
}

function failed(problem, focus) {
    if (problem.passes) {
        outage = {since: outage?.since || Date.now(), problem};
        if (!shown) put(message('Waiting for the sidecar', 'Its answer appears here as soon as it comes.'), focus);
        schedule();
    } else {
        outage = shown = null;
        put([problem.status === 400 && VIEWS[route.name].form?.(route, session), refusal(problem)], true);
    }
    header();
}

async function read(focus) {
    abort?.abort();
    clearTimeout(timer);
    const {signal} = (abort = new AbortController()), here = route, view = VIEWS[here.name];
    if (!shown) main.setAttribute('aria-busy', true);
    const show = (data) => {
        const first = focus && !shown;
        shown = {data, at: Date.now()};
        outage = null;
        draw(first);
    };
    try {
        if (!session) await sessionRead(signal);
        const instead = barred(view);
        if (instead) {
            put(instead, focus);
            return header();
        }
        const data = await view.load(here, signal, session, (partial) => (!shown || shown.data.partial) && show({...partial, partial: true}));
        if (!pause() || focus) show(data);
        schedule();
    } catch (problem) {
        if (signal.aborted) return;
        if (problem.passes === undefined) throw problem;
        failed(problem, focus);
    }
}

// ---- Events.

addEventListener('hashchange', () => {
    VIEWS[route.name]?.left?.();
    route = parse(location.hash);
    shown = null;
    read(true);
});
document.addEventListener('visibilitychange', () => pause() || read());
document.addEventListener('selectionchange', header);
document.querySelector('.skip').onclick = (event) => {
    event.preventDefault(); // its address would be that of a view
    main.focus();
};
header();
begin();
