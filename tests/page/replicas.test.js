// Two instances behind one address, as behind a Service: each request may reach the other one.
const assert = require('node:assert');
const http = require('node:http');
const {after, before, test} = require('node:test');
const {Rig, sleep, until} = require('./rig.js');
const {launch, Viewer} = require('./browser.js');

const TOKEN = 'all-rights-of-ann-1';
const SHARED = {queues: ['night'], tokens: `ann look,payloads,act ${TOKEN}\n`};

let rig, browser, one, two, viewer, balancer;
let away = false; // the balancer reaches nobody
const polls = () => viewer.requests.filter((r) => /answers\/[0-9a-f]{16}$/.test(r.url)).length;

// Sends each request to the other instance than the one before.
async function balance(...instances) {
    let turn = 0;
    const server = http.createServer((request, response) => {
        if (away) return response.destroy();
        const {port} = instances[turn++ % instances.length];
        const onward = http.request({port, path: request.url, method: request.method, headers: request.headers, agent: false}, (answer) => {
            response.writeHead(answer.statusCode, answer.headers);
            answer.pipe(response);
        });
        onward.on('error', () => response.destroy());
        request.pipe(onward);
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    return server;
}

before(async () => {
    rig = new Rig();
    browser = await launch();
    await rig.startRedis();
    one = await rig.sidecar('one', SHARED);
    two = await rig.sidecar('two', SHARED);
    await rig.fail('night', Array.from({length: 300}, (_, i) => ({payload: `{"n":${i}}`, error: 'disk full'})), one, two);
    balancer = await balance(one, two);
});

after(async () => {
    if (viewer) await viewer.close();
    if (browser) await browser.close();
    if (balancer) balancer.close();
    if (rig) await rig.end();
});

test('any instance shows how far a requeue is, and stops it', async () => {
    viewer = await Viewer.open(browser, `http://127.0.0.1:${balancer.address().port}/`, {token: TOKEN});
    await viewer.go('#/failures?queue=night');
    await viewer.press('Requeue all…');
    await viewer.reads('300 jobs would be put back', 'dialog');
    await viewer.fill('At most', '20/s', 'dialog');
    await viewer.fill('Type', '300', 'dialog');
    await viewer.press('Requeue 300 jobs', 'dialog');
    await viewer.reads('is under way', 'main');
    const before = polls();
    await until('both instances were asked', () => polls() >= before + 4);
    await viewer.reads('is under way', 'main');
    await viewer.press('Stop', 'main');
    await viewer.reads('was stopped', 'main');
    assert.ok(Number(rig.redis('llen', 'night')) < 300);
    viewer.quiet();
});

test('the end of a requeue is read once, because the other instances forget it; an outage after it heals', async () => {
    const ended = polls();
    await sleep(6000); // longer than between two reads of other views
    assert.strictEqual(polls(), ended);
    away = true;
    await viewer.page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))); // as when somebody comes back to the tab
    await viewer.reads(/The sidecar does not answer/, '#notice');
    away = false;
    await viewer.page.waitForFunction(() => !document.querySelector('#notice').innerText);
    await viewer.reads('was stopped', 'main');
});

test('a discard whose instance is killed is said to be lost', async () => {
    const send = async (body) => {
        const headers = {Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json'};
        const answer = await fetch(`${two.url}api/v1/answers`, {method: 'POST', headers, body: JSON.stringify({action: 'discard', filter: {queue: 'night'}, ...body})});
        return answer.json();
    };
    const {plan} = await send({dry_run: true});
    const {id} = await send({plan, rate: '1/s'});
    await two.stop('SIGKILL');
    await viewer.close();
    viewer = await Viewer.open(browser, one.url, {token: TOKEN});
    await viewer.go(`#/answer/${id}`);
    await viewer.reads('is under way', 'main');
    rig.redis('pexpire', `sidecar:{shop}:answer:${id}`, 3580000); // as if 20 s had passed
    await viewer.reads(/is lost[\s\S]*has not reported for \d+ s[\s\S]*Start it again/, 'main');
    await viewer.shot('answer-lost');
    assert.deepStrictEqual(await viewer.axe(), []);
    viewer.quiet();
});
