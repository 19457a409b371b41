// A million failures in the log: somebody who never saw a shell signs in, finds one job by a customer number, and puts it back. Each
// instance's log says who and why. It takes minutes to make the log, so it runs with QS_LONG=1 only.
const assert = require('node:assert');
const {spawnSync} = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const {after, before, test} = require('node:test');
const {Rig, until} = require('./rig.js');
const {launch, Viewer} = require('./browser.js');

const ALL = 'all-rights-of-ann-1', ROWS = 1000000, QUEUES = ['email', 'sms', 'push'];
const skip = process.env.QS_LONG !== '1' && 'QS_LONG=1 runs it';

let rig, browser, one, two;

function sql(log, input) {
    const done = spawnSync('sqlite3', ['-bail', log], {input, encoding: 'utf8'});
    assert.deepStrictEqual([done.status, done.stderr], [0, '']);
}

// Adds failures of the last week to the log of an instance that is not running: sql/README.md describes the schema. The job of customer
// 4711000 is the oldest, so a search for it reads the whole log.
function fill(log) {
    const digit = (n) => `substr('abcdefghijklmnopqrstuvwxyz234567', ((id >> ${55 - 5 * n}) & 31) + 1, 1)`;
    sql(log, `PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; BEGIN;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ${ROWS}), rows AS (SELECT i, (i * 619) % 1000003 * 1152921504 AS id, ${Date.now()} - (${ROWS} - i) * 600 AS ms,
    printf('{"customer":"%d","to":"user%d@example.org","text":"%.*c"}', 4711000 + i, i, 120, 'x') AS payload FROM n)
INSERT INTO events (ref, event, kind, dialect, queue, job, type, worker, reason, term, sha256, answers, answers_ref, attempts, created, started, at, size, error, payload, "group")
SELECT ${Array.from({length: 12}, (_, n) => digit(n)).join(' || ')}, printf('%015x%049x', id, i), 'failed', 'list', substr('emailsms  push ', i % 3 * 5 + 1, CASE i % 3 WHEN 0 THEN 5 WHEN 1 THEN 3 ELSE 4 END), 'job-' || i, 'mail', 'worker-' || i % 9,
    CASE i % 4 WHEN 0 THEN 'retries_exhausted' ELSE 'reported' END, '00112233445566778899aabbccddeeff-5000', '', '', '', 4, ms - 60000, ms - 1000, ms, length(payload), '550 no such mailbox user' || i,
    payload, 'shop' FROM rows;
UPDATE facts SET value = (SELECT count(*) FROM events) WHERE name = 'rows'; COMMIT; PRAGMA wal_checkpoint(TRUNCATE);`);
}

before(async () => {
    if (skip) return;
    rig = new Rig();
    browser = await launch();
    await rig.startRedis();
    one = await rig.sidecar('one', {queues: QUEUES, tokens: `ann look,payloads,act ${ALL}\nben look a-token-of-ben-22\n`});
    await one.stop();
    fill(one.log);
    // The other instance has the same events, and a name of its own.
    fs.copyFileSync(one.log, path.join(rig.dir, 'two.db'));
    sql(path.join(rig.dir, 'two.db'), "UPDATE facts SET value = lower(hex(randomblob(16))) WHERE name = 'instance'");
    await one.start();
    two = await rig.sidecar('two', {queues: QUEUES});
});

after(async () => {
    if (browser) await browser.close();
    if (rig) await rig.end();
});

test('one job of a million is found by a customer number and put back in less than a minute', {skip}, async (t) => {
    const viewer = await Viewer.open(browser, one.url), began = Date.now(), seconds = () => (Date.now() - began) / 1000;
    await viewer.go('');
    await viewer.press('Sign in', 'header');
    await viewer.page.waitForSelector('#token');
    await viewer.page.type('#token', ALL);
    await viewer.page.keyboard.press('Enter');
    await viewer.press('Failures', 'header');
    const shown = seconds();
    await viewer.fill('Text in error or payload', '4711000');
    const asked = seconds();
    await viewer.press('Search', 'form');
    await viewer.page.waitForFunction(() => document.querySelectorAll('table.failures tbody tr').length === 1);
    const found = seconds();
    await viewer.page.click('table.failures tbody a');
    await viewer.reads('4711000', '.json');
    await viewer.press('Requeue…');
    await viewer.reads('1 job would be put back', 'dialog');
    await viewer.fill('Why', 'asked by the customer', 'dialog');
    await viewer.press('Requeue 1 job', 'dialog');
    await viewer.reads(/Requeue of 1 job is done[\s\S]*1 put back/, 'main');
    const done = seconds();
    t.diagnostic(`signed in and at the failures after ${shown.toFixed(1)} s; found in ${(found - asked).toFixed(1)} s; put back after ${done.toFixed(1)} s in all`);
    assert.ok(done < 60, `${done} s`);
    assert.match(rig.redis('lrange', 'email', '0', '-1'), /^\{"customer":"4711000"/);
    for (const instance of [one, two]) {
        const row = await until('the log has the answer', () => instance.audit('list', '--job', 'job-0').find((r) => r.state === 'requeued'));
        assert.deepStrictEqual([row.answered_by.split('@')[0], row.answer_reason], ['ann', 'asked by the customer']);
    }
    viewer.quiet();
});
