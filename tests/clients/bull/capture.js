// capture.js: prints the commands and keys of Bull QS_BULL in Redis, one JSON object a line; see tests/data/README.md. Each scene begins
// with an empty database. Time and token are fixed, so that a version of Bull always writes the same bytes.
process.env.QS_LOCK_MS = "600000"; // no key may expire while the program reads it
process.env.QS_STALLED_MS = "600000";
const { open, load, version } = require("./bull");
const { readKeys } = require("./keys");
const { scenes, restart } = require("./scenes");

const Redis = load("ioredis");
const scripts = load("bull/lib/scripts");

const redis = new Redis(process.env.REDIS_URL);
const hex = (text) => Buffer.from(text, "latin1").toString("hex");
// Commands of MONITOR that are not printed: reads, scripts (MONITOR also shows each command of a script), and commands of a connect.
const SKIPPED = new RegExp(
  "^(evalsha|eval|script|info|client|ping|multi|exec|select|flushall|keys|type|exists|get|[hl]len|hexists|hm?get|hgetall|lrange|" +
    "lindex|lpos|z(range|revrange|count|card|score|rangebyscore|revrangebyscore)|sismember|smembers|scard|p?ttl)$",
  "i",
);
let commands = [];
let seen = () => {};

// MONITOR escapes bytes outside ASCII; ioredis does not decode them.
const unescaped = (text) =>
  text.replace(/\\(x[0-9a-f]{2}|.)/g, (_, c) => {
    if (c.length === 3) return String.fromCharCode(parseInt(c.slice(1), 16));
    return { n: "\n", r: "\r", t: "\t", a: "\x07", b: "\b" }[c] || c;
  });

async function caughtUp() {
  const mark = `mark-${Math.random()}`;
  const done = new Promise((resolve) => (seen = (text) => text === mark && resolve()));
  await redis.echo(mark);
  await done;
}

async function print(what) {
  await caughtUp();
  const said = (line) => process.stdout.write(JSON.stringify({ what, version, ...line }) + "\n");
  for (const command of commands) said({ command });
  commands = [];
  for (const line of await readKeys(redis)) said(line);
}

(async () => {
  // No other client may send commands while MONITOR begins: if a line of MONITOR arrives in one chunk with its OK, ioredis takes the
  // line for the reply to a command (built/DataHandler.js: the status changes only later).
  await redis.ping();
  const monitor = await redis.monitor();
  monitor.on("monitor", (_time, args) => {
    if (/^echo$/i.test(args[0])) seen(args[1]);
    else if (!SKIPPED.test(args[0])) commands.push(args.map((arg) => hex(unescaped(arg))));
  });
  for (const [what, scene] of Object.entries(scenes)) {
    if (what.startsWith("debounced") && !/^4\.16/.test(version)) continue;
    await redis.flushall();
    restart();
    const queue = open("video");
    queue.on("error", () => {});
    await queue.isReady();
    queue.token = "00000000-0000-4000-8000-000000000000";
    await caughtUp();
    commands = [];
    await scene({ queue, redis, scripts, step: (name) => print(`${what}: ${name}`) });
    await queue.close(true);
  }
  process.exit(0);
})();
