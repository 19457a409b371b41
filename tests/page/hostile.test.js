// Texts of attackers in every place that a job can bring them to, and pages of other sites.
const assert = require('node:assert');
const http = require('node:http');
const {after, before, test} = require('node:test');
const {Rig, until} = require('./rig.js');
const {launch, PHONE, Viewer} = require('./browser.js');

const ALL = 'all-rights-of-ann-1';
const MARKUP = '<img src=x onerror="alert(1)"><svg onload=alert(2)><script>alert(3)</script>';
const BREAKOUT = '</script></style></title></textarea>--><script>alert(4)</script>';
const BIDI = 'invoice\u202efdp.exe\u202c \u2066hidden\u2069 zero\u200bwidth \ufefftag';
const CONTROL = 'nul \u0000 bell \u0007 escape \u001b[31mred\u001b[0m c1 \u009b separators \u2028 \u2029';
const LINK = 'javascript:alert(5)//"onmouseover="alert(6)';
const QUEUES = [{name: 'hostile', more: 'id_path = "/id"; type_path = "/type"; max_payload = "16MiB";'}, {name: 'plain', more: ''}];

let rig, browser, side, viewer;

before(async () => {
    rig = new Rig();
    browser = await launch(['rebound.test', 'evil.test']);
    await rig.startRedis();
    side = await rig.sidecar('one', {queues: QUEUES, tokens: `ann look,payloads,act ${ALL}\n`});
    viewer = await Viewer.open(browser, side.url, {token: ALL});
});

after(async () => {
    if (browser) await browser.close();
    if (rig) await rig.end();
});

let number = 0;

// Ends a job, opens its failure, and returns what the page says of it.
async function shown(job, options = {}) {
    const error = options.error || `number ${++number}`;
    await rig.fail('hostile', [{payload: job, error}], side);
    const {ref} = side.audit('list', '-n', '1')[0];
    await viewer.go(`#/failure/${ref}`);
    await viewer.page.$$eval('details', (all) => all.forEach((d) => { d.open = true; }));
    await viewer.reads('History of the job', 'main');
    return viewer.text('main');
}

for (const [name, text] of Object.entries({markup: MARKUP, 'an end of the script': BREAKOUT, bidi: BIDI, 'control characters': CONTROL, 'an address that runs': LINK})) {
    test(`${name} in payload, error, type and job id is text`, async () => {
        const said = await shown(JSON.stringify({id: `${text} id`, type: `${text} type`, body: text, [text]: {[text]: [text]}}), {error: `${text} error`});
        if (text === MARKUP || text === BREAKOUT || text === LINK) {
            for (const place of ['id', 'type', 'error']) assert.ok(said.includes(`${text} ${place}`), `${place} is not as it is: ${said}`);
        }
        assert.doesNotMatch(said, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/, 'something invisible is not shown');
        await viewer.go('#/failures');
        await viewer.reads('error', 'table.failures');
        assert.doesNotMatch(await viewer.text('main'), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
        await viewer.go('#/failures?by=error');
        assert.strictEqual(await viewer.page.$eval('main', (m) => m.querySelectorAll('script, style, img, iframe, [onerror], [onload], [onmouseover]').length), 0);
        assert.ok(await viewer.page.$$eval('a[href]', (all) => all.every((a) => a.getAttribute('href').startsWith('#'))), 'a link leads elsewhere');
        viewer.quiet();
    });
}

test('bidi overrides and NUL are shown by their codes', async () => {
    const said = await shown(JSON.stringify({id: 'codes', body: BIDI}), {error: `${BIDI} ${CONTROL}`});
    for (const code of ['U+202E', 'U+2066', 'U+200B', 'U+FEFF', 'U+2028']) assert.ok(said.includes(code), code);
    await viewer.shot('failure-bidi');
    viewer.quiet();
});

test('type, worker and job id may be any bytes', async () => {
    const places = {job: Buffer.from([0x6a, 0xff, 0x00, 0xc3, 0x28]), type: `${MARKUP}${BIDI}`, worker: `${BREAKOUT}${CONTROL}`};
    for (const bytes of [places, {job: MARKUP, type: Buffer.from([0xfe, 0x00]), worker: Buffer.from([0xc0, 0xaf, 0x3c])}]) {
        const before = rig.failures(side, 'hostile');
        rig.record({queue: 'hostile', reason: 'reported', at: Date.now(), payload: 'x', ...bytes});
        await until('the log has it', () => rig.failures(side, 'hostile') > before);
        const {ref} = side.audit('list', '-n', '1')[0];
        for (const hash of [`#/failure/${ref}`, '#/failures']) {
            await viewer.go(hash);
            await viewer.reads(ref, 'main');
            assert.doesNotMatch(await viewer.text(), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
            assert.strictEqual(await viewer.page.$eval('main', (m) => m.querySelectorAll('script, style, img, [onerror], [onload]').length), 0);
        }
    }
    viewer.quiet();
});

test('bytes that are no text are shown as hex', async () => {
    const said = await shown(Buffer.from([0xff, 0xfe, 0x00, 0x41, 0xc3, 0x28, ...Buffer.alloc(12, 0x7a)]));
    assert.match(said, /00000000 +ff fe 00 41 c3 28 (7a ?){10} +\.\.\.A\.\(z{10}\n00000010 +7a 7a +zz\n/);
    await viewer.shot('failure-bytes');
    viewer.quiet();
});

test('JSON keeps its numbers and names as they are, also those that come twice', async () => {
    const said = await shown('{"id": "exact", "n": 12345678901234567890.10, "twice": 1, "twice": 2, "__proto__": {"x": 3}, "9": 0, "1": 0}');
    assert.match(said, /n: 12345678901234567890\.10/);
    assert.match(said, /twice: 1\s+twice: 2/);
    assert.match(said, /__proto__[\s\S]*9: 0\s+1: 0/);
    viewer.quiet();
});

test('JSON 1,000 deep folds, and opens level by level', async () => {
    await shown('{"id":"deep","a":' + '['.repeat(1000) + ']'.repeat(1000) + '}');
    await viewer.page.waitForFunction(() => {
        document.querySelectorAll('.json details').forEach((d) => { d.open = true; });
        return document.querySelectorAll('.json details').length > 30;
    });
    await viewer.page.setViewport(PHONE);
    assert.deepStrictEqual(await viewer.wide(), []);
    await viewer.page.setViewport({width: 1280, height: 900});
    viewer.quiet();
});

test('8 MiB in one line are cut, and come whole as a download', async () => {
    const payload = 'x'.repeat(8 << 20);
    const said = await shown(payload, {error: 'y'.repeat(100000)});
    assert.ok(said.length < 400000, `${said.length} characters`);
    assert.match(said, /more are in the download/);
    assert.deepStrictEqual(await viewer.wide(), []);
    await viewer.page.evaluate(() => { const make = URL.createObjectURL.bind(URL); URL.createObjectURL = (blob) => { window.got = blob.size; return make(blob); }; });
    await viewer.press('Download');
    assert.strictEqual(await until('the download', () => viewer.page.evaluate(() => window.got)), payload.length);
    await viewer.go('#/failures');
    await viewer.reads('yyyy', 'table.failures');
    viewer.quiet();
});

test('an address made by an attacker runs nothing', async () => {
    for (const hash of [`#/failure/${encodeURIComponent(MARKUP)}`, `#/queue/${encodeURIComponent(MARKUP)}`, `#/${MARKUP}`, `#/failures?queue=${encodeURIComponent(MARKUP)}&text=${encodeURIComponent(BREAKOUT)}`, '#/failures?by=__proto__', '#/constructor', '#/toString', '#/%ff%', `#/queue/email?state=${encodeURIComponent(LINK)}`]) {
        await viewer.go(hash);
        assert.strictEqual(await viewer.page.$eval('main', (m) => m.querySelectorAll('script, img, svg[onload]').length), 0, hash);
    }
    viewer.quiet();
});

// A page of another site, which is also the name that was rebound to this machine.
async function elsewhere(body, check) {
    const server = http.createServer((request, response) => response.end(request.url === '/' ? `<!doctype html><meta charset=utf-8>${body}` : ''));
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    try {
        await page.goto(`http://evil.test:${server.address().port}/`);
        await check(page);
    } finally {
        await context.close();
        server.closeAllConnections?.();
        server.close();
    }
}

test('a name that an attacker maps to this machine is refused', async () => {
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    for (const path of ['', 'assets/app.js', 'api/v1/status']) assert.strictEqual((await page.goto(`http://rebound.test:${side.port}/${path}`)).status(), 421, path);
    await context.close();
});

test('a frame of another site stays empty', async () => {
    await elsewhere(`<iframe src="${side.url}"></iframe>`, async (page) => {
        const frame = await until('the frame', () => page.frames()[1]);
        await until('the frame is refused', () => frame.url().startsWith('chrome-error:'));
    });
});

test('a form, a script and a request of another site get nothing', async () => {
    await rig.fail('hostile', [{payload: '{"id":"forged"}', error: 'forged'}], side);
    const {ref} = side.audit('list', '-n', '1')[0];
    const order = JSON.stringify({action: 'requeue', refs: [ref]});
    await elsewhere(`<form method=post enctype=text/plain action="${side.url}api/v1/answers"><input name='${order.slice(0, -1)},"because":"' value='"}'></form>`, async (page) => {
        const read = await page.evaluate(async (url, body) => {
            const tries = {
                read: () => fetch(`${url}api/v1/status`), write: () => fetch(`${url}api/v1/answers`, {method: 'POST', body, headers: {'Content-Type': 'application/json'}}),
                token: () => fetch(`${url}api/v1/status`, {headers: {Authorization: 'Bearer x'}}), script: () => import(`${url}assets/app.js`),
            };
            const out = {};
            for (const [name, attempt] of Object.entries(tries)) out[name] = await attempt().then(() => 'done', () => 'refused');
            return out;
        }, side.url, order);
        assert.deepStrictEqual(read, {read: 'refused', write: 'refused', token: 'refused', script: 'refused'});
        const [response] = await Promise.all([page.waitForNavigation(), page.$eval('form', (form) => form.submit())]);
        assert.ok([401, 403, 415].includes(response.status()), `the form got ${response.status()}`);
    });
    assert.strictEqual(side.audit('list', '-n', '1')[0].state, 'failed');
    assert.strictEqual(rig.redis('llen', 'hostile').trim(), '0');
});
