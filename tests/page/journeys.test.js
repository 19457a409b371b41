// Errands of people: one customer's job, all jobs of one error, a token that changes, Redis or the sidecar gone.
const assert = require('node:assert');
const {spawn} = require('node:child_process');
const fs = require('node:fs');
const {after, before, beforeEach, test} = require('node:test');
const {Rig, sleep, until} = require('./rig.js');
const {launch, PHONE, Viewer} = require('./browser.js');

const ALL = 'all-rights-of-ann-1', LOOK = 'look-only-of-ben-22', NEW = 'the-new-one-of-ann-3';
const TOKENS = `ann look,payloads,act ${ALL}\nben look ${LOOK}\n`;
const QUEUES = ['email', 'sms', 'night'];

let rig, browser, one, two, viewer;

const open = async (options = {}) => {
    if (viewer) await viewer.close();
    viewer = await Viewer.open(browser, options.url || one.url, {token: ALL, ...options});
};

before(async () => {
    rig = new Rig();
    browser = await launch();
    await rig.startRedis();
    one = await rig.sidecar('one', {queues: QUEUES, tokens: TOKENS});
    two = await rig.sidecar('two', {queues: QUEUES, tokens: TOKENS});
});

beforeEach(() => rig.redis('del', 'email', 'sms', 'night'));

after(async () => {
    if (browser) await browser.close();
    if (rig) await rig.end();
});

const ready = (queue) => Number(rig.redis('llen', queue));
const job = (customer) => ({payload: JSON.stringify({customer, to: `user${customer}@example.org`}), error: `550 no such mailbox user${customer}`});

test('support finds the job of one customer, reads it, puts it back, and each instance says who and why', async () => {
    await rig.fail('email', Array.from({length: 300}, (_, i) => job(70000 + i)), one, two);
    await open({token: null});
    await viewer.go('#/queues');
    await viewer.press('Sign in', 'header');
    await viewer.page.waitForSelector('#token');
    await viewer.page.type('#token', ALL);
    await viewer.page.keyboard.press('Enter');
    await viewer.press('Failures', 'header');
    await viewer.fill('Text in error or payload', '70123');
    await viewer.page.keyboard.press('Enter');
    await viewer.page.waitForFunction(() => document.querySelectorAll('table.failures tbody tr').length === 1);
    await viewer.page.click('table.failures tbody a');
    await viewer.reads('user70123@example.org', 'main');
    await viewer.press('Requeue…');
    await viewer.reads('1 job would be put back', 'dialog');
    await viewer.shot('dialog-one');
    assert.deepStrictEqual(await viewer.axe(), []);
    await viewer.fill('Why', 'asked by the customer', 'dialog');
    await viewer.press('Requeue 1 job', 'dialog');
    await viewer.reads('Requeue of 1 job is done', 'main');
    await viewer.shot('answer-one');
    assert.strictEqual(rig.redis('lrange', 'email', '0', '-1').trim(), job(70123).payload);
    await viewer.press('Back to the failures');
    await viewer.reads(/Requeued .* by ann: asked by the customer/, 'main');
    await viewer.shot('failure-answered');
    const row = await until('the other log has the answer', () => two.audit('list', '--grep', '70123').find((r) => r.state === 'requeued'));
    assert.deepStrictEqual([row.answered_by.split('@')[0], row.answer_reason], ['ann', 'asked by the customer']);
    viewer.quiet();
    await open({url: two.url, token: LOOK});
    await viewer.go(`#/failure/${row.ref}`);
    await viewer.reads(/Requeued .* by ann: asked by the customer[\s\S]*History of the job[\s\S]*requeued[\s\S]*ann/, 'main');
});

test('all that match go back at a rate; stopped half-way and started again, each goes back once', async () => {
    await rig.fail('night', Array.from({length: 9500}, (_, i) => ({payload: `{"n":${i}}`, error: 'disk full'})), one);
    await rig.fail('night', Array.from({length: 500}, (_, i) => ({payload: `{"relay":${i}}`, error: `relay timeout ${i}`})), one);
    await open();
    await viewer.go('#/failures?queue=night&text=relay%20timeout');
    await viewer.press('Requeue all…');
    await viewer.reads('500 jobs would be put back', 'dialog');
    await viewer.fill('At most', '100/s', 'dialog');
    assert.strictEqual(await viewer.page.$eval('dialog button.main', (b) => b.disabled), true, 'the number must be typed');
    await viewer.fill('Type', '499', 'dialog');
    assert.strictEqual(await viewer.page.$eval('dialog button.main', (b) => b.disabled), true, 'another number will not do');
    await viewer.page.keyboard.press('Backspace');
    await viewer.page.keyboard.press('Backspace');
    await viewer.page.keyboard.press('Backspace');
    await viewer.page.keyboard.type('500');
    await viewer.shot('dialog-all');
    await viewer.press('Requeue 500 jobs', 'dialog');
    await until('some went back', () => ready('night') >= 50);
    await viewer.reads('is under way', 'main');
    await viewer.shot('answer-running');
    await viewer.page.reload();
    await viewer.reads('is under way', 'main');
    await viewer.press('Stop', 'main');
    await viewer.reads('was stopped', 'main');
    await viewer.shot('answer-stopped');
    assert.deepStrictEqual(await viewer.axe(), []);
    const first = ready('night');
    assert.ok(first >= 50 && first < 500, `${first} went back`);
    await viewer.press('Back to the failures');
    await viewer.press('Requeue all…');
    await viewer.reads(`${500 - first} jobs? would be put back`.replace('jobs?', 500 - first === 1 ? 'job' : 'jobs'), 'dialog');
    if (500 - first > 100) await viewer.fill('Type', String(500 - first), 'dialog');
    await viewer.press(`Requeue ${500 - first} jobs`, 'dialog');
    await viewer.reads('is done', 'main');
    const jobs = rig.redis('lrange', 'night', '0', '-1').trim().split('\n');
    assert.strictEqual(jobs.length, 500);
    assert.strictEqual(new Set(jobs).size, 500);
    viewer.quiet();
});

test('ticked rows are discarded, and nothing else', async () => {
    await rig.fail('sms', [1, 2, 3].map((n) => ({payload: `tick ${n}`, error: 'wrong number'})), one);
    await open();
    await viewer.go('#/failures?queue=sms&text=wrong');
    const rows = await viewer.page.$$('table.failures tbody input');
    await rows[0].click();
    await rows[2].click();
    await viewer.press('Discard…');
    await viewer.reads('2 jobs would be discarded', 'dialog');
    await viewer.press('Discard 2 jobs', 'dialog');
    await viewer.reads('is done', 'main');
    await until('two are discarded', () => one.audit('list', '--queue', 'sms').filter((r) => r.state === 'discarded').length === 2);
    assert.strictEqual(ready('sms'), 0);
});

test('a job goes into another queue, and once more where its reader wants it so', async () => {
    await rig.fail('sms', [{payload: 'to be moved', error: 'moved'}], one);
    await open();
    const {ref} = one.audit('list', '--grep', 'to be moved')[0];
    for (const times of [1, 2]) {
        await viewer.go(`#/failure/${ref}`);
        await viewer.press(times === 1 ? 'Requeue…' : 'Requeue again…');
        await viewer.reads('1 job would be put back', 'dialog');
        await viewer.fill('Into', 'email', 'dialog');
        await viewer.reads('1 job would be put back', 'dialog');
        await viewer.press('Requeue 1 job', 'dialog');
        await viewer.reads('Requeue of 1 job is done', 'main');
        assert.deepStrictEqual([ready('email'), ready('sms')], [times, 0]);
    }
    viewer.quiet();
});

test('dialog and progress fit a phone in the dark; without the right act there are none', async () => {
    await rig.fail('sms', [1, 2, 3].map((n) => ({payload: `phone ${n}`, error: 'on a phone'})), one);
    await open({view: PHONE, dark: true});
    await viewer.go('#/failures?queue=sms&text=on%20a%20phone');
    await viewer.press('Requeue all…');
    await viewer.reads('3 jobs would be put back', 'dialog');
    await viewer.shot('dialog-phone-dark');
    assert.deepStrictEqual([await viewer.axe(), await viewer.wide()], [[], []]);
    await viewer.press('Requeue 3 jobs', 'dialog');
    await viewer.reads('is done', 'main');
    await viewer.shot('answer-phone-dark');
    assert.deepStrictEqual([await viewer.axe(), await viewer.wide()], [[], []]);
    await open({token: LOOK});
    await viewer.go(viewer.page.url().replace(/.*#/, '#').replace(/^(?!#\/answer).*/, '#/answer/none'));
    await viewer.reads('Your token lacks the right "act"', 'main');
});

test('somebody else was faster: it is said who, and nothing goes back twice', async () => {
    await rig.fail('sms', [{payload: 'contested', error: 'contested'}], one, two);
    await open();
    await viewer.go('#/failures?queue=sms&text=contested');
    await viewer.page.click('table.failures tbody a');
    await viewer.press('Requeue…');
    await viewer.reads('1 job would be put back', 'dialog');
    const {ref} = two.audit('list', '--grep', 'contested')[0];
    assert.strictEqual(two.run('audit', 'requeue', ref, '--by', 'zoe@night', '--because', 'first').status, 0);
    await viewer.press('Requeue 1 job', 'dialog');
    await viewer.reads(/zoe@night/);
    await viewer.shot('answer-too-late');
    assert.strictEqual(ready('sms'), 1);
    viewer.quiet();
});

test('each result of a run says why, and who was faster', async () => {
    await rig.fail('sms', [1, 2].map((n) => ({payload: `race ${n}`, error: 'overtaken'})), one, two);
    await open();
    await viewer.go('#/failures?queue=sms&text=overtaken');
    await viewer.page.click('table.failures thead input');
    await viewer.press('Requeue…');
    await viewer.reads('2 jobs would be put back', 'dialog');
    const {ref} = two.audit('list', '--grep', 'race 1')[0];
    assert.strictEqual(two.run('audit', 'requeue', ref, '--by', 'zoe@night', '--because', 'first').status, 0);
    await viewer.press('Requeue 2 jobs', 'dialog');
    await viewer.reads('is done', 'main');
    const why = await viewer.page.$$eval('table tr[data-key]', (rows) => Object.fromEntries(rows.map((r) => [r.dataset.key, r.querySelector('[data-label=Why]').innerText])));
    assert.match(why[ref], /requeued .* by zoe@night/);
    assert.strictEqual(ready('sms'), 2);
    viewer.quiet();
});

test('a wrong token is refused in words, a rotated one asks for the present one, a lesser one has no buttons', async () => {
    await rig.fail('email', [job(2)], one);
    await open({token: null});
    await viewer.go('#/failures');
    await viewer.page.waitForSelector('#token');
    await viewer.page.type('#token', 'some-token-of-nobody');
    await viewer.page.keyboard.press('Enter');
    await viewer.reads('This token is not accepted');
    await viewer.shot('sign-in-refused');
    assert.deepStrictEqual(await viewer.axe(), []);
    await viewer.page.type('#token', ALL);
    await viewer.page.keyboard.press('Enter');
    await viewer.reads('Error, else payload', 'main');
    assert.doesNotMatch(viewer.page.url(), /ann/);
    fs.writeFileSync(one.tokenFile, `ann look,payloads,act ${NEW}\nben look ${LOOK}\n`);
    await viewer.reads('This token is not accepted');
    await viewer.page.type('#token', LOOK);
    await viewer.page.keyboard.press('Enter');
    await viewer.reads('Error, else payload', 'main');
    assert.doesNotMatch(await viewer.text(), /Requeue|Discard/);
    const refused = await viewer.api('answers', {method: 'POST', body: '{"action":"requeue","refs":["aaaa"]}', headers: {'Content-Type': 'application/json'}});
    assert.strictEqual(refused.status, 403, JSON.stringify(refused));
    assert.ok(viewer.requests.every((r) => ![ALL, NEW, LOOK].some((t) => r.url.includes(t))), 'a token is in an address');
    fs.writeFileSync(one.tokenFile, TOKENS);
    viewer.quiet();
});

test('Redis, then the instance, ends under an open page: old numbers turn grey, and all heals without a reload', async () => {
    rig.redis('lpush', 'email', 'waits');
    await open();
    await viewer.go('#/queues');
    await viewer.reads('email', 'main');
    await viewer.page.evaluate(() => { window.unchanged = true; });
    await rig.stopRedis();
    await viewer.reads(/Redis does not answer/, '#notice');
    await viewer.page.waitForSelector('.old table.queues');
    await viewer.shot('queues-redis-away');
    assert.deepStrictEqual(await viewer.axe(), []);
    await rig.startRedis();
    await viewer.page.waitForFunction(() => !document.querySelector('.old') && !document.querySelector('#notice').innerText);
    await one.stop('SIGKILL');
    await viewer.reads(/The sidecar does not answer[\s\S]*What you see is of \d\d:\d\d:\d\d/, '#notice');
    assert.strictEqual(await viewer.page.$eval('main', (m) => m.classList.contains('old')), true);
    await viewer.shot('queues-sidecar-away');
    await one.start();
    await viewer.page.waitForFunction(() => !document.querySelector('main').classList.contains('old') && !document.querySelector('#notice').innerText);
    assert.strictEqual(await viewer.page.evaluate(() => window.unchanged), true, 'the page was loaded again');
});

test('a log that another process locks is read on, and what fails meanwhile comes without a reload', async () => {
    await rig.fail('sms', [{payload: 'before the lock', error: 'before the lock'}], one);
    const locker = spawn('sqlite3', [one.log], {stdio: ['pipe', 'pipe', 'ignore']});
    locker.stdin.write('.timeout 20000\nBEGIN IMMEDIATE;\nSELECT \'locked\';\n');
    await new Promise((done) => locker.stdout.once('data', done));
    await rig.fail('sms', [{payload: 'behind the lock', error: 'behind the lock'}], two);
    await open();
    await viewer.go('#/failures?queue=sms');
    await viewer.reads('before the lock', 'table.failures');
    assert.doesNotMatch(await viewer.text(), /behind the lock/);
    locker.stdin.end('ROLLBACK;\n');
    await viewer.reads('behind the lock', 'table.failures');
    viewer.quiet();
});

test('a log that cannot be read turns what is shown grey, with the reason and since when, and all heals without a reload', async () => {
    await open();
    let away = false;
    await viewer.answer(/v1\/failures\?/, () => away && {status: 503, title: 'Service Unavailable', detail: 'the audit log cannot be read: `one.db` is locked'});
    await viewer.go('#/failures');
    await viewer.reads('From the audit log', 'main');
    await viewer.page.evaluate(() => { window.unchanged = true; });
    away = true;
    await viewer.reads(/The sidecar cannot answer: the audit log cannot be read: one.db is locked\. What you see is of \d\d:\d\d:\d\d/, '#notice');
    assert.strictEqual(await viewer.page.$eval('main', (m) => m.classList.contains('old')), true);
    await viewer.shot('failures-log-away');
    assert.deepStrictEqual(await viewer.axe(), []);
    away = false;
    await viewer.page.waitForFunction(() => !document.querySelector('main').classList.contains('old') && !document.querySelector('#notice').innerText);
    assert.strictEqual(await viewer.page.evaluate(() => window.unchanged), true, 'the page was loaded again');
});

test('a damaged log and one with a gap are said, and the page lives on', async () => {
    await rig.fail('email', [job(1)], one);
    await open();
    await viewer.go('#/failures');
    await viewer.reads('From the audit log', 'main');
    const file = fs.openSync(one.log, 'r+');
    fs.writeSync(file, Buffer.alloc(65536, 0x5a), 0, 65536, 0);
    fs.closeSync(file);
    await until('the log is set aside', () => fs.readdirSync(rig.dir).some((name) => name.startsWith('one.db.corrupt-')), 60000);
    await viewer.reads(/with \d+ gaps?: failures may be missing/, 'main');
    await viewer.shot('failures-gap');
});
