// Makes the pictures of README from a real sidecar: node pictures.js DIRECTORY. Its queues have a made-up day behind them.
const {spawnSync} = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const {freePort, PROGRAM, Rig, until} = require('./rig.js');
const {launch, Viewer} = require('./browser.js');

const TOKEN = 'all-rights-of-ann-1', DAY = 1440, MINUTE_MS = 60000, COLUMNS = 108;
// What the day was like: jobs at a minute of the day, and failures in it.
const wave = (minute, most, phase) => Math.max(0, Math.round(most * (0.55 + 0.35 * Math.sin((minute + phase) / 38) + 0.2 * Math.sin(minute / 5 + phase))));
const DAYS = {
    invoices: {ready: (m) => (m > DAY - 32 ? (m - DAY + 32) * 42 : wave(m, 9, 20)), failures: () => 0},
    email: {ready: (m) => wave(m, 40, 0), failures: (m) => (m > DAY - 34 && m < DAY - 8 ? (m * 7) % 5 : m % 211 ? 0 : 1)},
    webhooks: {ready: (m) => wave(m, 18, 90), failures: () => 0},
    sms: {ready: (m) => wave(m, 6, 200), failures: () => 0},
    thumbnails: {ready: (m) => wave(m, 120, 300), failures: () => 0},
};
const ERRORS = [
    ['email', 43, (n) => `450 mailbox of customer ${70110 + n} is busy`], ['email', 12, (n) => `550 no such mailbox user${70300 + n}`],
    ['email', 9, (n) => `timeout of the relay after ${10000 + n} ms`], ['email', 7, (n) => `connection to relay-${1 + (n % 3)} lost after ${30 + n} s`],
];

// The ring of docs/internals.md, "The history in detail".
function history({ready, failures}, now) {
    const ring = Buffer.alloc(DAY * 22), minute = Math.floor(now / MINUTE_MS);
    for (let m = 0; m < DAY; m++) {
        const number = minute - DAY + m, at = (number % DAY) * 22;
        [number, ready(m), 30 + (m % 13), 4 + (m % 3), ready(m) > 200 ? 900 : m % 4].forEach((value, i) => ring.writeUInt32LE(value, at + 4 * i));
        ring.writeUInt16LE(failures(m), at + 20);
    }
    return ring;
}

async function begin(rig) {
    const port = await freePort(), redis = await freePort(), now = Date.now();
    rig.server = rig.child('redis-server', ['--port', String(redis), '--bind', '127.0.0.1', '--unixsocket', rig.socket, '--save', ''], 'redis.log');
    await until('redis-server answers', () => rig.redis('ping').trim() === 'PONG');
    fs.writeFileSync(path.join(rig.dir, 'tokens'), `ann look,payloads,act ${TOKEN}\n`, {mode: 0o600});
    fs.writeFileSync(path.join(rig.dir, 'shop.cfg'), `group = "shop";
redis = { host = "127.0.0.1"; port = ${redis}; };
audit = { path = "audit.db"; };
http = { port = ${port}; token_file = "tokens"; };
queues = ( { name = "invoices"; protected_timeout = "10m"; ready_limit = 1000; heartbeat = "off"; },
    ${['email', 'webhooks', 'sms', 'thumbnails', 'exports', 'newsletter', 'reports', 'cleanup'].map((name) => `{ name = "${name}"; protected_timeout = "10m"; heartbeat = "off"; }`).join(',\n    ')} );
`);
    const jobs = (name, n) => Array.from({length: n}, (_, i) => `{"n":${i},"of":"${name}"}`);
    rig.pipe(Object.entries(DAYS).flatMap(([name, day]) => [['SET', `sidecar:${name}:history`, history(day, now), 'EX', '90000'], ['LPUSH', name, ...jobs(name, day.ready(DAY - 1) || 2)], ['LPUSH', `${name}:backup`, `{"running":"${name}"}`],
        ['ZADD', `${name}:delayed`, now + 25 * MINUTE_MS, `{"later":"${name}"}`]]));
    rig.pipe([['ZADD', 'invoices:delayed', ...jobs('late', 60).flatMap((job, i) => [now - 4 * MINUTE_MS + i, job])]]);
    rig.record(...ERRORS.flatMap(([queue, n, error]) => Array.from({length: n}, (_, i) => ({queue, job: `${queue}-${70110 + i * 7}`, type: queue, worker: `pod-${i % 3}/1`, attempts: 1 + (i % 4), reason: i % 4 ? 'reported' : 'retries_exhausted', error: error(i),
        at: now - (8 + i) * 31000, payload: `{"customer":${70110 + i},"order":"A-${4000 + i}"}`}))));
    rig.child(PROGRAM, ['run', '-c', 'shop.cfg'], 'log');
    const url = `http://127.0.0.1:${port}/`;
    await until('the sidecar is ready', () => fetch(`${url}readyz`).then((r) => r.ok, () => false));
    const count = async () => (await (await fetch(`${url}api/v1/failures/groups?by=reason`, {headers: {Authorization: `Bearer ${TOKEN}`}})).json()).items.reduce((n, g) => n + g.failures, 0);
    await until('the log has the failures', async () => (await count()) === ERRORS.reduce((n, e) => n + e[1], 0));
    return url;
}

const COLOURS = {36: '#5fb3c8', 33: '#e0b050', '1;31': '#ff7b72', 1: '#ffffff', 2: '#9aa4ab'};

// The output of a command in a terminal, as SVG.
function terminal(command, output) {
    const escape = (text) => text.replace(/[&<> ]/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', ' ': '\u00a0'})[c]);
    const lines = [`$ ${command}`, ...output.replaceAll('\r', '').trimEnd().split('\n')], width = COLUMNS * 7.25 + 32, height = lines.length * 18 + 30;
    const line = (text) => text.split(/\x1b\[([\d;]*)m/).map((part, i, all) => (i % 2 || !part ? '' : COLOURS[all[i - 1]] ? `<tspan fill="${COLOURS[all[i - 1]]}">${escape(part)}</tspan>` : escape(part))).join('');
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="The output of ${command}">
<rect width="100%" height="100%" rx="8" fill="#14191c"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="12" fill="#e3e9ec">
${lines.map((text, i) => `<text x="16" y="${i * 18 + 28}">${line(text)}</text>`).join('\n')}
</g>
</svg>
`;
}

async function make(out) {
    const rig = new Rig(), browser = await launch();
    try {
        const viewer = await Viewer.open(browser, await begin(rig), {token: TOKEN, view: {width: 1100, height: 1000}});
        const picture = async (name, height) => viewer.page.screenshot({path: path.join(out, `${name}.png`), clip: {x: 0, y: 0, width: 1100, height}});
        await viewer.go('#/queues');
        await viewer.page.waitForFunction(() => document.querySelectorAll('svg.sparkline').length >= 5);
        await picture('page-queues', 660);
        await viewer.go('#/failures?by=error');
        await picture('page-failures', 600);
        const command = 'queue-sidecar status -c shop.cfg';
        const shown = spawnSync('script', ['-qec', `stty cols ${COLUMNS} rows 60; exec '${PROGRAM}' status -c shop.cfg`, '/dev/null'], {cwd: rig.dir, encoding: 'utf8', env: {...process.env, TERM: 'xterm', TZ: 'UTC'}});
        fs.writeFileSync(path.join(out, 'status.svg'), terminal(command, shown.stdout));
    } finally {
        await browser.close();
        await rig.end();
    }
}

make(process.argv[2]);
