// work.js QUEUE: works on a Bull queue until SIGTERM, QS_THREADS jobs at a time.
const { open } = require("./bull");
const { say, keyOf, handle, hanging } = require("./story");

const queue = open(process.argv[2]);
let ending = false;
queue.on("error", (error) => ending || say("error", "-", error));
queue.on("failed", (job, error) => say("failed", job ? keyOf(job.data.text) : "-", error.message));
queue.on("completed", (job) => say("finished", keyOf(job.data.text), job.attemptsMade));
queue.on("stalled", (job) => say("stalled", keyOf(job.data.text), job.id));

queue
  .process(Number(process.env.QS_THREADS || 4), async (job) => {
    say("taken", keyOf(job.data.text), Buffer.from(JSON.stringify(job.data)).toString("hex"));
    await handle(job.data.text);
    say("done", keyOf(job.data.text), job.attemptsMade);
  })
  .catch((error) => ending || say("error", "-", error));
queue.isReady().then(() => say("ready", "-", process.pid));

process.on("SIGTERM", async () => {
  ending = true;
  await queue.close(hanging() > 0);
  process.exit(0);
});
