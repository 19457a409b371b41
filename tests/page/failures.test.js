// The view "Failures" and what leads to one failure: each filter, each count, hidden and erased values, names as long as they may be.
const assert = require('node:assert');
const {after, before, test} = require('node:test');
const {Rig, until} = require('./rig.js');
const {launch, PHONE, Viewer} = require('./browser.js');

const ALL = 'all-rights-of-ann-1';
const QUEUES = [{name: 'email', more: 'type_path = "/type"; id_path = "/id";'}, 'sms', {name: 'cards', more: 'hide = ["/card", "/owner/name"]; id_path = "/id";'}];
const LONG = 'x'.repeat(128);
const HOUR_MS = 3600000, EVENING = new Date().setUTCHours(-2 * 24 + 18, 30, 0, 0); // of the day before yesterday: retention removes older ones
const day = (days) => new Date(EVENING + days * 24 * HOUR_MS).toISOString().slice(0, 10);

let rig, browser, side, viewer;

before(async () => {
    rig = new Rig();
    browser = await launch();
    await rig.startRedis();
    side = await rig.sidecar('one', {queues: [...QUEUES, LONG], tokens: `ann look,payloads,act ${ALL}\n`});
    rig.record(
        {queue: 'email', job: 'e1', type: 'welcome', worker: 'pod-a/1', reason: 'reported', error: '550 no such mailbox 17', at: EVENING, payload: '{"to":"Ann"}'},
        {queue: 'email', job: 'e2', type: 'invoice', worker: 'pod-b/1', reason: 'retries_exhausted', error: '550 no such mailbox 18', at: EVENING + HOUR_MS, payload: '{"to":"Ben"}'},
        {queue: 'sms', job: 's1', type: 'code', worker: 'pod-b/1', reason: 'alive_timeout', at: EVENING + 2 * HOUR_MS, payload: '{"to":"Cem"}'},
        {queue: 'sms', job: 's2', type: 'code', worker: 'pod-a/1', reason: 'reported', error: 'timeout', at: Date.now(), payload: '{"to":"Dora"}'},
    );
    await until('the log has the failures', () => rig.failures(side, 'email') === 2 && rig.failures(side, 'sms') === 2);
    viewer = await Viewer.open(browser, side.url, {token: ALL});
});

after(async () => {
    if (browser) await browser.close();
    if (rig) await rig.end();
});

// The ids of the jobs that are shown, in order.
const shown = () => viewer.page.$$eval('table.failures tbody tr', (rows) => rows.map((r) => r.querySelector('[data-label=Job]').innerText));

async function shows(...jobs) {
    let are;
    await until(`${jobs} are shown`, async () => String(are = await shown()) === String(jobs)).catch(() => assert.deepStrictEqual(are, jobs));
}

test('each filter of the form finds its failures, and nothing else', async () => {
    const filters = {
        'Text in': ['mailbox 18', ['e2']], Queue: ['sms', ['s2', 's1']], Reason: ['alive_timeout', ['s1']], 'Job id': ['e1', ['e1']], Type: ['invoice', ['e2']], Worker: ['pod-b/1', ['s1', 'e2']],
        From: ['today', ['s2']], Until: [`${day(0)}T19:00:00Z`, ['e1']],
    };
    for (const [label, [value, jobs]] of Object.entries(filters)) {
        await viewer.go('#/failures?by=queue');
        await shows('s2', 's1', 'e2', 'e1');
        await viewer.fill(label, value, 'form');
        await viewer.press('Search', 'form');
        await shows(...jobs);
        await viewer.reads(new RegExp(`${jobs.length} failures?, ${jobs.length} open`), 'details');
    }
    await viewer.go('#/failures?text=MAILBOX');
    await viewer.reads('No failure matches');
    await viewer.page.click('input[name=ignore_case]');
    await viewer.press('Search', 'form');
    await shows('e2', 'e1');
    await viewer.press('Clear', 'form');
    await shows('s2', 's1', 'e2', 'e1');
    viewer.quiet();
});

test('times of the form are those of the reader', async () => {
    await viewer.page.emulateTimezone('Asia/Kolkata'); // UTC+5.5: there it is midnight
    await viewer.go('#/failures');
    await viewer.fill('From', `${day(1)} 00:30`, 'form');
    await viewer.fill('Until', `${day(1)} 01:00`, 'form');
    await viewer.press('Search', 'form');
    await viewer.reads('No failure matches');
    await viewer.go('#/failures');
    await viewer.fill('From', day(1), 'form');
    await viewer.fill('Until', `${day(1)} 01:00`, 'form');
    await viewer.press('Search', 'form');
    await shows('e1');
    assert.match(await viewer.text('table.failures'), new RegExp(`UTC\\+5\\.5[\\s\\S]*${day(1)} 00:00:00`));
    assert.match(viewer.page.url(), /since=\d{4}-\d\d-\d\dT18%3A30%3A00.000Z/);
    assert.strictEqual(await viewer.page.$eval('input[name=since]', (i) => i.value), `${day(1)} 00:00`);
    await viewer.page.emulateTimezone('UTC');
});

test('a filter that the sidecar refuses is said beside the form, with the nearest word', async () => {
    await viewer.go('#/failures?since=2026-13-45&queue=email');
    await viewer.reads('The sidecar refuses this');
    assert.strictEqual(await viewer.page.$eval('input[name=since]', (i) => i.value), '2026-13-45');
    await viewer.shot('failures-refused');
    await viewer.go('#/failures?reason=reportd');
    await viewer.reads('Did you mean reported');
});

test('counts by reason, queue, error and hour each lead to their failures', async () => {
    const counts = {
        reason: [['reported', 2, ['s2', 'e1']], ['retries_exhausted', 1, ['e2']], ['alive_timeout', 1, ['s1']]],
        queue: [['email', 2, ['e2', 'e1']], ['sms', 2, ['s2', 's1']]],
        error: [['# no such mailbox #', 2, ['e2', 'e1']], ['timeout', 1, ['s2']]],
        hour: [[`${day(0)} 18:00`, 1, ['e1']], [`${day(0)} 19:00`, 1, ['e2']], [`${day(0)} 20:00`, 1, ['s1']]],
    };
    for (const [by, groups] of Object.entries(counts)) {
        for (const [name, failures, jobs] of groups) {
            await viewer.go(`#/failures?by=${by === 'queue' ? 'hour' : 'queue'}`);
            await viewer.press(`by ${by}`, 'main');
            await viewer.reads(`by ${by}`, '.tabs [aria-current]');
            await viewer.reads(name, 'details');
            const row = await viewer.page.$$eval('details tbody tr', (rows, n) => [...rows.find((r) => r.cells[0].textContent === n).cells].map((c) => c.textContent), name);
            assert.deepStrictEqual([Number(row[1]), Number(row[2])], [failures, failures], `${by}: ${row}`);
            await viewer.press(name, 'details');
            await shows(...jobs);
        }
    }
    viewer.quiet();
});

test('counts that end early go on by themselves, and are added up', async () => {
    const own = await Viewer.open(browser, side.url, {token: ALL});
    const pages = [[['relay', 3], ['disk', 1]], [['disk', 4]], [['quota', 2]]], cursors = [];
    await own.answer(/v1\/failures\/groups/, async (address) => {
        const page = cursors.push(address.searchParams.get('cursor')) - 1;
        return {items: pages[page].map(([error, n]) => ({error, failures: n, open: n - 1, last: '2026-01-01T00:00:00.000Z'})), next: page < 2 ? `c${page}` : null, searched_to: '2026-01-01T00:00:00.000Z'};
    });
    await own.go('#/failures?by=error');
    await own.reads(/10 failures, 6 open\n/, 'details');
    assert.deepStrictEqual(cursors, [null, 'c0', 'c1']);
    assert.deepStrictEqual(await own.page.$$eval('details tbody tr', (rows) => rows.map((r) => [...r.cells].slice(0, 3).map((c) => c.textContent).join(' '))), ['disk 5 3', 'relay 3 2', 'quota 2 1']);
    own.quiet();
    await own.close();
});

test('a ref that several have leads to all of them', async () => {
    rig.record(...Array.from({length: 40}, (_, i) => ({queue: 'cards', job: `many${i}`, reason: 'reported', at: EVENING}))); // more than there are letters
    await until('the log has them', () => rig.failures(side, 'cards') >= 40);
    const refs = side.audit('list').map((row) => row.ref), first = refs.find((ref) => refs.filter((other) => other[0] === ref[0]).length > 1)?.[0];
    assert.ok(first, 'the records begin alike');
    await viewer.go(`#/failure/${first}`);
    await viewer.reads('More than one begins so');
    await viewer.shot('failure-ambiguous');
    assert.deepStrictEqual(await viewer.axe(), []);
    await viewer.page.click('main li a');
    await viewer.reads('History of the job');
});

test('hidden values are neither shown, nor found, nor grouped, and a requeue keeps them', async () => {
    const secret = {id: 'c1', card: '5105-1051', owner: {name: 'Ann Example', city: 'Rome'}};
    await rig.fail('cards', [{payload: JSON.stringify(secret), error: 'declined'}, {payload: 'no JSON 5105-1051', error: 'unreadable'}], side);
    rig.redis('lpush', 'cards', JSON.stringify({...secret, id: 'c2'}));
    const [first] = side.audit('list', '--queue', 'cards', '--job', 'c1');
    const views = ['#/failures?queue=cards', '#/failures?queue=cards&by=error', `#/failure/${first.ref}`, `#/failure/${side.audit('list', '--queue', 'cards')[0].ref}`, '#/queue/cards'];
    for (const hash of views) {
        await viewer.go(hash);
        await viewer.page.$$eval('details', (all) => all.forEach((d) => { d.open = true; }));
        await viewer.reads(hash.includes('failures') ? 'declined' : '(hidden)', 'main');
        assert.doesNotMatch(await viewer.page.content(), /5105|Ann Example/, hash);
    }
    await viewer.go(`#/failure/${first.ref}`);
    await viewer.shot('failure-hidden');
    for (const text of ['5105', 'Ann Example', 'no JSON']) {
        await viewer.go(`#/failures?text=${encodeURIComponent(text)}`);
        await viewer.reads('No failure matches');
        await viewer.go(`#/queue/cards?text=${encodeURIComponent(text)}`);
        await viewer.reads('There are none.');
    }
    await viewer.go('#/failures?text=Rome');
    await viewer.reads('declined', 'table.failures');
    await viewer.page.click('table.failures tbody a');
    await viewer.press('Requeue…');
    await viewer.press('Requeue 1 job', 'dialog');
    await viewer.reads('is done', 'main');
    assert.ok(rig.redis('lrange', 'cards', '0', '-1').includes(JSON.stringify(secret)), 'a byte of the job was lost');
    viewer.quiet();
});

test('an erased failure says so, and its values are gone', async () => {
    await rig.fail('sms', [{payload: 'personal data of Eve', error: 'about Eve'}], side);
    const {ref} = side.audit('list', '--grep', 'Eve')[0];
    assert.strictEqual(side.run('audit', 'erase', ref, '--by', 'zoe@desk', '--because', 'asked by Eve').status, 0);
    await until('the log has erased it', () => side.audit('list', '--grep', 'personal').length === 0);
    await viewer.go(`#/failure/${ref}`);
    await viewer.reads(/Erased .* by zoe@desk: asked by Eve/, 'main');
    assert.doesNotMatch(await viewer.text(), /personal|about Eve|Requeue/);
    await viewer.shot('failure-erased');
});

test('a queue shows its jobs by state, found by text, its failures and its config', async () => {
    rig.pipe([['LPUSH', 'email', '{"id":"r1","to":"Fay"}', '{"id":"r2","to":"Gus"}'], ['ZADD', 'email:delayed', Date.now() + HOUR_MS, '{"id":"d1","to":"Hal"}'], ['LPUSH', 'email:backup', '{"id":"p1","to":"Ida"}']]);
    await viewer.go('#/queue/email');
    await viewer.reads(/r1[\s\S]*Fay/, 'main');
    await viewer.fill('Text', 'Gus', 'section');
    await viewer.press('Search', 'section');
    await viewer.page.waitForFunction(() => !document.querySelector('main').innerText.includes('Fay'));
    await viewer.reads('Gus', 'main');
    await viewer.go('#/queue/email');
    await viewer.press('delayed', '.tabs');
    await viewer.reads(/Due[\s\S]*d1[\s\S]*Hal/, 'main');
    await viewer.press('in progress', '.tabs');
    await viewer.reads(/Since[\s\S]*p1[\s\S]*Ida/, 'main');
    const text = await viewer.text();
    assert.match(text, /no such mailbox 18[\s\S]*type_path\s+"\/type"/);
    assert.doesNotMatch(text, /timeout\b.*\n.*s2/);
    await viewer.shot('queue-in-progress');
    await viewer.press('All failures of this queue');
    await shows('e2', 'e1');
    viewer.quiet();
});

test('names and values as long as they may be fit, and are cut in lists', async () => {
    const more = 'W'.repeat(300);
    rig.record({queue: LONG, job: more, type: more, worker: more, reason: 'reported', error: more, at: Date.now(), payload: JSON.stringify({[more]: more})});
    rig.redis('lpush', LONG, more);
    await until('the log has it', () => rig.failures(side, LONG) === 1);
    const {ref} = side.audit('list', '--queue', LONG)[0];
    for (const view of [{width: 1280, height: 900}, PHONE]) {
        await viewer.page.setViewport(view);
        for (const [name, hash] of Object.entries({queues: '#/queues', failures: `#/failures?queue=${LONG}&by=queue`, 'failures-by-error': '#/failures?by=error', queue: `#/queue/${LONG}`, failure: `#/failure/${ref}`, config: '#/config'})) {
            await viewer.go(hash);
            await viewer.shot(`${name}-long-${view.width}`);
            assert.deepStrictEqual(await viewer.wide(), [], `${name} scrolls sideways at ${view.width} px`);
        }
    }
    await viewer.page.setViewport({width: 1280, height: 900});
    viewer.quiet();
});
