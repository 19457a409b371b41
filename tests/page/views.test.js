// Each view: readable in light and dark, at 360 px and at 200 %, by keyboard alone, and with each set of rights.
const assert = require('node:assert');
const {after, before, test} = require('node:test');
const {Rig, sleep, until} = require('./rig.js');
const {launch, PHONE, Viewer, WIDE, ZOOMED} = require('./browser.js');

const ALL = 'all-rights-of-ann-1', LOOK = 'look-only-of-ben-22', GATE = 'proxy-that-may-look';
const TOKENS = `ann look,payloads,act ${ALL}\nben look ${LOOK}\ngate look,proxy ${GATE}\n`;
const QUEUES = ['email', 'sms', {name: 'push', more: 'ready_limit = 5;'}, 'idle1', 'idle2', 'idle3', 'idle4'];

let rig, browser, side, viewer, ref;

const open = async (options = {}) => {
    if (viewer) await viewer.close();
    viewer = await Viewer.open(browser, options.url || side.url, {token: ALL, ...options});
    return viewer;
};

before(async () => {
    rig = new Rig();
    browser = await launch();
    await rig.startRedis();
    side = await rig.sidecar('one', {queues: QUEUES, tokens: TOKENS, http: 'user_header = "X-Forwarded-User";'});
    await rig.fail('email', Array.from({length: 120}, (_, i) => ({payload: JSON.stringify({customer: 4000 + i, to: `user${i}@example.org`, deep: {list: [1, [2, [3]]]}}), error: i % 3 ? `550 no such mailbox user${i}` : `timeout after ${i} ms`})), side);
    rig.pipe(Array.from({length: 60}, (_, i) => ['LPUSH', 'push', `{"n":${i}}`]));
    rig.pipe([['ZADD', 'push:delayed', Date.now() - 240000, '{"late":1}'], ['ZADD', 'sms:delayed', Date.now() + 3600000, '{"later":1}'], ['LPUSH', 'sms:backup', '{"running":1}']]);
    ref = side.audit('list', '--queue', 'email', '-n', '3')[2].ref;
});

after(async () => {
    if (browser) await browser.close();
    if (rig) await rig.end();
});

const views = () => ({queues: '#/queues', queue: '#/queue/email', failures: '#/failures', 'failures-by-error': '#/failures?by=error', failure: `#/failure/${ref}`, config: '#/config', 'sign-in': '#/sign-in', 'not-found': '#/failure/zzzzzzzz'});

for (const [mode, options] of Object.entries({light: {view: WIDE}, dark: {view: WIDE, dark: true}, phone: {view: PHONE}, 'phone-dark': {view: PHONE, dark: true}, zoomed: {view: ZOOMED}})) {
    test(`each view is accessible and fits: ${mode}`, async () => {
        await open(options);
        for (const [name, hash] of Object.entries(views())) {
            await viewer.go(hash);
            if (name === 'queues') { // its plots come after it, while their rows are in view
                await viewer.page.$eval('table.queues', (table) => table.scrollIntoView());
                await viewer.page.waitForSelector('svg.sparkline');
            }
            await viewer.shot(`${name}-${mode}`);
            assert.deepStrictEqual(await viewer.wide(), [], `${name} scrolls sideways`);
            assert.deepStrictEqual(await viewer.axe(), [], name);
        }
        viewer.quiet();
    });
}

test('queues: findings come first, trouble before calm, idle queues are folded', async () => {
    await open();
    await viewer.go('#/queues');
    const text = await viewer.text();
    assert.match(text, /Not well: \d+ warning/);
    assert.match(text, /ready_limit is 5/);
    assert.match(text, /4 idle queues/);
    const names = await viewer.page.$$eval('table.queues:first-of-type tbody tr', (rows) => rows.map((r) => r.dataset.key));
    assert.strictEqual(names[0], 'push', names.join());
    assert.match(await viewer.text('table.queues tbody tr'), /\d+ min late/);
});

test('a search that ends early goes on by itself, says how far it is, and can be stopped', async () => {
    await open();
    const cursors = [];
    await viewer.answer(/v1\/failures\?/, async (address) => {
        cursors.push(address.searchParams.get('cursor'));
        const asked = cursors.length;
        await sleep(300); // as long as a slice, but shorter
        const items = asked === 3 ? [{ref: 'aaaaaaaaaaaa', kind: 'failed', state: 'failed', queue: 'email', error: 'needle', at: '2026-01-01T00:00:00.000Z'}] : [];
        return {items, next: `c${asked}`, searched_to: asked < 12 ? `2026-01-${30 - asked}T00:00:00.000Z` : '2026-01-02T00:00:00.000Z', log: {instance: 'x', open_gaps: 0, lag_seconds: 0}};
    });
    await viewer.go('#/failures?text=needle');
    await viewer.reads(/Searching: back to 2026-01-\d\d/);
    await viewer.reads('needle', 'table.failures');
    await viewer.reads(/Searching: back to 2026-01-02/);
    await viewer.shot('failures-searching');
    assert.deepStrictEqual(cursors.slice(0, 4), [null, 'c1', 'c2', 'c3']);
    await viewer.press('Stop');
    await viewer.reads(/Searched back to 2026-01-02[\s\S]*Older/);
    await viewer.reads('Paused: a long search', 'header');
    viewer.quiet();
});

test('a queue has plots of a day, each with its numbers as a table, and a sparkline', async () => {
    await open();
    const minutes = Array.from({length: 1440}, (_, i) => i), at = minutes.map((i) => new Date(Date.now() - (1440 - i) * 60000).toISOString());
    const known = (of) => minutes.map((i) => (i > 700 && i < 800 ? null : of(i)));
    await viewer.answer(/v1\/history\?/, () => ({queue: 'email', step_seconds: 60, from: at[0], at, ready: known((i) => i % 97), delayed: known((i) => 50 + (i % 31)), in_progress: known(() => 3), late_seconds: known((i) => (i % 7) / 10), failures: known((i) => (i % 60 ? 0 : 4))}));
    await viewer.answer(/v1\/jobs\?/, (address) => ({items: [{job_id: 'j1', [address.searchParams.get('state') === 'delayed' ? 'due_at' : 'started_at']: at[9], size: 7, payload: '{"a":1}', payload_encoding: 'text'}], next: 'more', log: null}));
    await viewer.go('#/queue/email');
    assert.strictEqual(await viewer.page.$$eval('.plot svg', (all) => all.length), 3);
    assert.match(await viewer.page.$eval('.plot svg', (s) => s.getAttribute('aria-label')), /Jobs: at most 96/);
    await viewer.press('Numbers', '.plot');
    assert.strictEqual(await viewer.page.$$eval('.plot:first-child tbody tr', (all) => all.length), 96);
    assert.match(await viewer.text('.plot:first-child tbody'), /\t–\t–\t–/, 'a gap is no zero');
    await viewer.press('delayed', '.tabs');
    await viewer.reads('Due');
    await viewer.shot('queue-plots');
    assert.deepStrictEqual(await viewer.axe(), []);
    await viewer.page.setViewport(PHONE);
    await viewer.page.waitForSelector('.plot svg');
    assert.deepStrictEqual(await viewer.wide(), []);
    await viewer.shot('queue-plots-phone');
    await viewer.page.setViewport(WIDE);
    await viewer.go('#/queues');
    await viewer.page.waitForSelector('svg.sparkline');
    assert.match(await viewer.page.$eval('svg.sparkline', (s) => s.getAttribute('aria-label')), /last hour: at most \d+ ready, \d+ failures/);
    await viewer.shot('queues-sparklines');
    assert.deepStrictEqual(await viewer.axe(), []);
    viewer.quiet();
});

test('an address can be sent, reloaded and walked back', async () => {
    await open();
    await viewer.go('#/failures?queue=email&text=timeout');
    await viewer.reads('timeout after');
    assert.doesNotMatch(await viewer.text('table.failures'), /no such mailbox/);
    await viewer.page.reload();
    await viewer.reads('timeout after', 'table.failures');
    assert.strictEqual(await viewer.page.$eval('input[name=queue]', (i) => i.value), 'email');
    await viewer.page.click('table.failures tbody a');
    await viewer.reads('History of the job');
    await viewer.page.goBack();
    await viewer.reads('timeout after', 'table.failures');
    assert.strictEqual(await viewer.page.$eval('input[name=text]', (i) => i.value), 'timeout');
});

test('older failures come by page, and the newest again', async () => {
    await open();
    await viewer.go('#/failures?queue=email');
    const seen = new Set();
    for (const more of ['Older', 'Older', null]) {
        for (const row of await viewer.page.$$eval('table.failures tbody tr', (rows) => rows.map((r) => r.dataset.key))) seen.add(row);
        if (!more) break;
        const first = await viewer.page.$eval('table.failures tbody tr', (r) => r.dataset.key);
        await viewer.press(more);
        await viewer.page.waitForFunction((key) => document.querySelector('main:not([aria-busy]) table.failures tbody tr') && document.querySelector('table.failures tbody tr').dataset.key !== key, {}, first);
    }
    assert.strictEqual(seen.size, 120);
    await viewer.reads('No older ones');
    await viewer.press('Newest');
    await viewer.reads('Older', '.pages');
});

test('the page is read again every 5 s, but not while text is selected, rows are ticked or the tab is hidden', async () => {
    await open({hasty: 5000});
    await viewer.go('#/failures');
    const reads = () => viewer.requests.filter((r) => /failures\?/.test(r.url)).length;
    const refresh = async (why) => {
        const before = reads();
        await until(`a refresh ${why}`, () => reads() > before);
    };
    // The page looks whether it may read, finds that it may not, and looks again, several times.
    const none = async (why) => {
        const turns = async (more) => {
            const now = await viewer.page.evaluate(() => window.turns);
            await viewer.page.waitForFunction((n) => window.turns >= n, {}, now + more);
        };
        await turns(1); // a reading that has begun is counted
        const before = reads();
        await turns(3);
        assert.strictEqual(reads(), before, `it was read again while ${why}`);
    };
    await refresh('every 5 s');

    await viewer.page.evaluate(() => getSelection().selectAllChildren(document.querySelector('table.failures tbody tr')));
    await viewer.reads('Paused: text is selected', 'header');
    await none('text was selected');
    await viewer.page.evaluate(() => getSelection().removeAllRanges());
    await refresh('after the selection');

    await viewer.page.click('table.failures tbody input');
    await viewer.reads('1 row ticked', '.actions');
    await none('a row was ticked');
    await viewer.press('Untick');
    assert.strictEqual(await viewer.page.$eval('table.failures tbody input', (box) => box.checked), false);
    await refresh('after the ticks');

    const hide = (hidden) => viewer.page.evaluate((is) => {
        Object.defineProperty(document, 'hidden', {value: is, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    await hide(true);
    await none('the tab was hidden');
    await hide(false);
    await refresh('of the tab that is shown again');
});

test('a refresh keeps focus, open details and what was typed', async () => {
    await open();
    await viewer.go('#/queues');
    await viewer.page.click('details.idle summary');
    await viewer.page.focus('details.idle summary');
    const shown = await viewer.text('.fresh');
    await viewer.page.waitForFunction((text) => document.querySelector('.fresh').innerText !== text, {}, shown);
    assert.deepStrictEqual(await viewer.page.$eval('details.idle', (d) => [d.open, document.activeElement === d.firstChild]), [true, true]);
});

test('the keyboard alone reaches and opens everything, and focus is visible', async () => {
    await open();
    await viewer.go('#/queues');
    await viewer.page.evaluate(() => document.activeElement.blur());
    const focused = () => viewer.page.evaluate(() => document.activeElement.textContent.trim());
    const tabTo = async (text) => {
        for (let i = 0; i < 60 && (await focused()) !== text; i++) await viewer.page.keyboard.press('Tab');
        assert.strictEqual(await focused(), text);
        assert.notStrictEqual(await viewer.page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none', `focus on "${text}" is invisible`);
    };
    await tabTo('Failures');
    await viewer.page.keyboard.press('Enter');
    await viewer.reads('Error, else payload');
    assert.strictEqual(await viewer.page.evaluate(() => document.activeElement.nodeName), 'H1', 'a new view takes the focus');
    await tabTo(await viewer.page.$eval('table.failures tbody a', (a) => a.textContent));
    await viewer.page.keyboard.press('Enter');
    await viewer.reads('History of the job');
    await tabTo('Requeue…');
    await viewer.page.keyboard.press('Enter');
    await viewer.page.waitForSelector('dialog');
    await viewer.page.keyboard.press('Escape');
    await viewer.page.waitForFunction(() => !document.querySelector('dialog'));
});

test('counts that lack rare groups say so', async () => {
    await open();
    await viewer.answer(/v1\/failures\/groups/, () => ({items: [{error: 'often', failures: 40, open: 30, last: '2026-01-01T00:00:00.000Z'}], dropped_failures: 1234, too_low: 3, next: null, log: null, searched_to: null}));
    await viewer.go('#/failures?by=error');
    await viewer.reads('1,274 failures, 30 open, at least');
    viewer.quiet();
});

test('what is shown can be saved as JSON lines and as CSV without formulas', async () => {
    await rig.fail('sms', [{payload: '=1+1;x; "=2', error: 'a, "b"\nc;@3'}], side);
    await open();
    await viewer.go('#/failures?queue=sms');
    await viewer.reads('a, "b"');
    await viewer.page.evaluate(() => {
        window.saved = [];
        const make = URL.createObjectURL.bind(URL);
        URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push(text)); return make(blob); };
    });
    await viewer.press('JSON lines');
    await viewer.press('CSV');
    const [lines, csv] = await until('two files', () => viewer.page.evaluate(() => window.saved.length === 2 && window.saved));
    const row = JSON.parse(lines.trim());
    assert.strictEqual(row.payload, '=1+1;x; "=2');
    assert.match(csv, /,"'=1\+1;x; ""'=2",/, 'behind a semicolon, too, a cell begins in some spreadsheets');
    assert.match(csv, /"!a, ""b""\nc;'@3"/);
    assert.match(csv.split('\r\n')[0], /^("\w+",)+"\w+"$/);
    assert.strictEqual(csv.split('\r\n')[0].split(',').length, Object.keys(row).length);
});

test('all failures are counted for a requeue although no filter is set', async () => {
    await open();
    await viewer.go('#/failures');
    await viewer.press('Requeue all…');
    await viewer.reads(/\d+ jobs would be put back/, 'dialog');
    await viewer.press('Cancel', 'dialog');
    await viewer.press('Discard all…');
    await viewer.reads(/\d+ jobs would be discarded/, 'dialog');
    viewer.quiet();
});

test('without the right act there is no button, and without payloads no payload', async () => {
    await open({token: LOOK});
    await viewer.go('#/failures?queue=email');
    await viewer.reads('no such mailbox');
    assert.doesNotMatch(await viewer.text(), /Requeue|Discard|ticked/);
    assert.strictEqual(await viewer.page.$('table.failures input'), null);
    await viewer.go(`#/failure/${ref}`);
    await viewer.reads('Your token lacks the right "payloads"');
    assert.doesNotMatch(await viewer.text(), /Requeue|Discard|customer|Download/);
    await viewer.shot('failure-look-only');
    assert.strictEqual((await viewer.api(`failures/${ref}/payload`)).status, 403);
    viewer.quiet();
});

test('without a token only the queues are there, and the page leads to the sign-in', async () => {
    await open({token: null});
    await viewer.go('#/queues');
    await viewer.reads('push');
    assert.doesNotMatch(await viewer.text('header'), /Failures|Config/);
    await viewer.shot('queues-signed-out');
    assert.deepStrictEqual(await viewer.axe(), []);
    await viewer.go('#/failures');
    await viewer.reads('This view needs a token');
});

test('behind a proxy that signs people in the page asks for no token', async () => {
    await open({token: null});
    await viewer.page.setExtraHTTPHeaders({Authorization: `Bearer ${GATE}`, 'X-Forwarded-User': 'carla@example.com'});
    await viewer.go('#/failures?queue=email');
    await viewer.reads('no such mailbox');
    assert.match(await viewer.text('header'), /carla@example\.com/);
    assert.doesNotMatch(await viewer.text('header'), /Sign in/);
    await viewer.go('#/failure/zzzzzzzz');
    await viewer.reads('Not found');
    await viewer.go('#/answer/0123456789abcdef');
    await viewer.reads('Your token lacks the right "act"');
    await viewer.go('#/config');
    await viewer.page.setExtraHTTPHeaders({});
    await viewer.reads('Your session has ended');
    viewer.quiet();
});

test('without a token file the page shows the queues alone', async () => {
    const bare = await rig.sidecar('bare', {queues: ['calm'], group: 'bare'});
    await open({url: bare.url, token: null});
    await viewer.go('#/queues');
    await viewer.reads('calm');
    assert.doesNotMatch(await viewer.text('header'), /Sign in|Failures|Config/);
    await viewer.shot('queues-no-token-file');
    await viewer.go('#/config');
    await viewer.reads('set http.token_file');
    await bare.stop();
});

test('an empty sidecar says that all is well', async () => {
    const empty = await rig.sidecar('empty', {queues: ['calm'], group: 'empty', tokens: TOKENS});
    await open({url: empty.url});
    await viewer.go('#/queues');
    await viewer.reads('All is well');
    await viewer.shot('queues-empty');
    await viewer.go('#/failures');
    await viewer.reads('No job has failed');
    await viewer.shot('failures-empty');
    await viewer.go('#/queue/nonesuch');
    await viewer.reads('no queue of this name');
    await empty.stop();
});

test('of a payload with hidden values the page tells neither size nor digest', async () => {
    const hider = await rig.sidecar('hider', {queues: [{name: 'pins', more: 'hide = ["/pin"];'}], group: 'hider', tokens: TOKENS});
    await rig.fail('pins', [{payload: '{"pin":"sesame!"}', error: 'refused'}], hider);
    await open({url: hider.url});
    const [{ref, job_id: job}] = hider.audit('list');
    assert.match(job, /^[0-9a-f]{64}$/);
    await viewer.go(`#/failure/${ref}`);
    await viewer.reads('(hidden)', 'main');
    await viewer.press('Ids', 'main');
    assert.doesNotMatch(await viewer.text(), new RegExp(`sesame!|${job}|bytes|Job\\b`));
    await viewer.go('#/failures');
    await viewer.reads(ref, 'table.failures');
    assert.doesNotMatch(await viewer.text(), new RegExp(job.slice(0, 12)));
    viewer.quiet();
    await hider.stop();
});

test('1,000 queues: the one in trouble is first, a name is found, nothing scrolls sideways', async () => {
    const many = await rig.sidecar('many', {queues: Array.from({length: 1000}, (_, i) => `queue-${i}`), group: 'many', tokens: TOKENS});
    rig.pipe(Array.from({length: 40}, (_, i) => ['LPUSH', `queue-${i * 20}`, 'x']));
    await rig.fail('queue-777', [{payload: 'x', error: 'broken'}], many);
    await open({url: many.url});
    await viewer.go('#/queues');
    await viewer.reads('queue-777', 'table.queues tbody tr:first-child');
    await viewer.shot('queues-1000');
    await viewer.page.type('input[type=search]', 'queue-99');
    await viewer.reads('11 of 1,000');
    assert.match(viewer.page.url(), /find=queue-99$/);
    await viewer.page.setViewport(PHONE); // loads the page again
    await viewer.reads('11 of 1,000');
    assert.deepStrictEqual(await viewer.wide(), []);
    await viewer.shot('queues-1000-phone');
    viewer.quiet();
    await many.stop();
});
