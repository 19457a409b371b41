// A private redis-server, sidecars on it, and jobs that fail: for the tests of the page.
const {spawn, spawnSync} = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const PROGRAM = path.resolve(process.env.QS_DAEMON || path.join(__dirname, '../../build/queue-sidecar'));
const WAIT_MS = 30000;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Waits for a condition; its value is returned.
async function until(what, check, ms = WAIT_MS) {
    const limit = Date.now() + ms;
    for (;;) {
        const value = await check();
        if (value) return value;
        if (Date.now() > limit) throw new Error(`this did not happen in time: ${what}`);
        await sleep(50);
    }
}

// A port that no outgoing connection of this machine can take: below the ephemeral range.
async function freePort() {
    for (;;) {
        const port = 20000 + Math.floor(Math.random() * 10000);
        const server = net.createServer();
        const free = await new Promise((done) => server.once('error', () => done(false)).listen(port, '127.0.0.1', () => done(true)));
        if (free) await new Promise((done) => server.close(done));
        if (free) return port;
    }
}

const resp = (words) => Buffer.concat([Buffer.from(`*${words.length}\r\n`), ...words.flatMap((word) => {
    const bytes = Buffer.isBuffer(word) ? word : Buffer.from(String(word));
    return [Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')];
})]);

class Rig {
    constructor() {
        this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'qs-page-'));
        this.socket = path.join(this.dir, 'redis.sock');
        this.children = new Set();
    }

    child(program, args, log) {
        const out = fs.openSync(path.join(this.dir, log), 'a');
        const child = spawn(program, args, {stdio: ['ignore', out, out], cwd: this.dir});
        fs.closeSync(out);
        this.children.add(child);
        child.ended = new Promise((done) => child.once('exit', done)).then(() => this.children.delete(child));
        return child;
    }

    async startRedis() {
        this.server = this.child('redis-server', ['--port', '0', '--unixsocket', this.socket, '--dir', this.dir, '--save', '', '--appendonly', 'yes'], 'redis.log');
        await until('redis-server answers', () => this.redis('ping').trim() === 'PONG');
    }

    async stopRedis() {
        this.server.kill('SIGKILL');
        await this.server.ended;
    }

    redis(...words) {
        return spawnSync('redis-cli', ['-s', this.socket, ...words], {encoding: 'utf8'}).stdout;
    }

    // Commands as arrays of strings and buffers.
    pipe(commands) {
        const done = spawnSync('redis-cli', ['-s', this.socket, '--pipe'], {input: Buffer.concat(commands.map(resp)), encoding: 'utf8'});
        if (done.status !== 0 || !/errors: 0,/.test(done.stdout)) throw new Error(`redis-cli --pipe: ${done.stdout}${done.stderr}`);
    }

    // Starts a sidecar; `name` tells its files apart. Returns {url, log, child, run(...args)}.
    async sidecar(name, {queues, tokens, http = '', group = 'shop', port} = {}) {
        port ||= await freePort();
        const config = path.join(this.dir, `${name}.cfg`), tokenFile = path.join(this.dir, 'tokens');
        if (tokens) fs.writeFileSync(tokenFile, tokens, {mode: 0o600});
        const list = queues.map((q) => (typeof q === 'string' ? {name: q, more: ''} : q))
            .map((q) => `{ name = "${q.name}"; protected_timeout = "1h"; heartbeat = "${q.name}:*_alive"; ${q.more} }`);
        fs.writeFileSync(config, `group = "${group}";
redis = { socket = "${this.socket}"; };
audit = { path = "${this.dir}/${name}.db"; };
http = { port = ${port}; listen = "127.0.0.1"; ${tokens ? `token_file = "${tokenFile}"; ` : ''}${http} };
queues = ( ${list.join(',\n    ')} );
`);
        const instance = {url: `http://127.0.0.1:${port}/`, port, config, tokenFile, log: path.join(this.dir, `${name}.db`)};
        instance.start = async () => {
            instance.child = this.child(PROGRAM, ['run', '-c', config], `${name}.log`);
            await until(`sidecar ${name} is ready`, () => fetch(`${instance.url}readyz`).then((r) => r.ok, () => false));
        };
        instance.stop = async (signal = 'SIGTERM') => {
            instance.child.kill(signal);
            await instance.child.ended;
        };
        instance.run = (...args) => spawnSync(PROGRAM, [...args, '-c', config], {encoding: 'utf8', maxBuffer: 1 << 28});
        instance.audit = (...args) => JSON.parse(instance.run('audit', ...args, '-o', 'json').stdout);
        await instance.start();
        return instance;
    }

    // Ends jobs as workers report them: {payload, error}. Waits until the log of each given instance has them.
    async fail(queue, jobs, ...instances) {
        const before = instances.map((i) => this.failures(i, queue));
        for (let at = 0; at < jobs.length; at += 1000) {
            this.pipe(jobs.slice(at, at + 1000).flatMap(({payload, error}) => [
                ['LPUSH', `${queue}:backup`, payload], ['HSET', `${queue}:errors`, payload, Buffer.concat([Buffer.from('!'), Buffer.from(error)])],
            ]));
        }
        for (const [n, instance] of instances.entries()) await until(`the log has ${jobs.length} failures`, () => this.failures(instance, queue) >= before[n] + jobs.length, 120000);
    }

    // Adds final failures to the streams, as a sidecar that has decided on them: {queue, job, at, ...fields of the record}.
    record(...failures) {
        this.pipe(failures.map(({queue, payload = '', error, ...fields}) => ['XADD', `sidecar:${queue}:failures`, '*', 'event', crypto.randomBytes(32).toString('hex'), 'kind', 'failed', 'dialect', 'list', 'queue', queue,
            ...Object.entries(fields).flat(), 'size', Buffer.byteLength(payload), 'payload', payload, ...(error ? ['error', error] : [])]));
    }

    failures(instance, queue) {
        const out = spawnSync('sqlite3', ['-readonly', '-cmd', '.timeout 5000', instance.log, `SELECT count(*) FROM events WHERE kind = 'failed' AND queue = '${queue}'`], {encoding: 'utf8'}).stdout;
        return Number(out) || 0; // a new log has no table yet
    }

    async end() {
        for (const child of this.children) child.kill('SIGKILL');
        await Promise.all([...this.children].map((child) => child.ended));
        if (!process.env.QS_KEEP) fs.rmSync(this.dir, {recursive: true, force: true});
    }
}

module.exports = {Rig, PROGRAM, until, sleep, freePort};
