// work.js QUEUE: works on a queue until SIGTERM, QS_THREADS jobs at a time.
const { work } = require("./bullmq");
const { say, keyOf, handle, hanging } = require("./story");

const worker = work(
  process.argv[2],
  async (job) => {
    say("taken", keyOf(job.data.text), Buffer.from(JSON.stringify(job.data)).toString("hex"));
    await handle(job.data.text);
    say("done", keyOf(job.data.text), job.attemptsMade);
  },
  {
    concurrency: Number(process.env.QS_THREADS || 4),
    lockDuration: Number(process.env.QS_LOCK_MS || 2000),
    stalledInterval: Number(process.env.QS_STALLED_MS || 1000),
    maxStalledCount: Number(process.env.QS_MAX_STALLED || 1),
    name: "w1",
    ...(process.env.QS_LIMIT ? { limiter: JSON.parse(process.env.QS_LIMIT) } : {}),
  },
);
let ending = false;
worker.on("error", (error) => ending || say("error", "-", error));
worker.on("failed", (job, error) => say("failed", job && job.data ? keyOf(job.data.text) : "-", error.message));
worker.on("completed", (job) => say("finished", keyOf(job.data.text), job.attemptsMade));
worker.on("stalled", (id) => say("stalled", "-", id));
worker.waitUntilReady().then(() => say("ready", "-", process.pid));

process.on("SIGTERM", async () => {
  ending = true;
  await worker.close(hanging() > 0);
  process.exit(0);
});
