// work.js QUEUE: a worker of bee-queue. With QS_NATIVE=on it also promotes delayed jobs, which bee-queue leaves off by default.
const story = require("./story");
const { open, hex } = require("./queue");

const queue = open(process.argv[2], { activateDelayedJobs: process.env.QS_NATIVE === "on", getEvents: false, storeJobs: false });
const fixed = queue.backoffStrategies.get("fixed");

queue.backoffStrategies.set("fixed", (job) => {
  const delay = fixed(job);
  story.say("delayed", story.keyOf(job.data.text), `${((Date.now() + delay) / 1000).toFixed(6)} ${hex(job.id)}`);
  return delay;
});
queue.on("error", (error) => story.say("error", "-", error));
queue.process(Number(process.env.QS_THREADS || 1), async (job) => {
  const key = story.keyOf(job.data.text);
  story.say("taken", key, hex(job.id));
  try {
    await story.handle(job.data.text);
  } catch (error) {
    story.say("failed", key, error.message);
    throw error;
  }
  story.say("done", key);
});
queue.on("ready", () => story.say("ready", "-", process.pid));
process.once("SIGTERM", () => queue.close(5000).then(() => process.exit(0)));
