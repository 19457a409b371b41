// work.js QUEUE...: a worker of dialect list in a Cluster, by ioredis's Cluster. Each queue has a client of its own, because BLMOVE blocks
// the client's connection to a node. It tries a command again that fails while a slot moves or a replica takes over.
const { setTimeout: pause } = require("timers/promises");
const story = require("./story");
const { open } = require("./cluster");

let stop = false;
process.on("SIGTERM", () => (stop = true));

async function again(command) {
  for (;;) {
    try {
      return await command();
    } catch (error) {
      story.say("again", "-", error);
      await pause(100);
    }
  }
}

async function serve(queue) {
  const r = open();
  while (!stop) {
    const job = await again(() => r.blmoveBuffer(queue, queue + ":backup", "RIGHT", "LEFT", 1));
    if (!job) continue;
    const { text } = JSON.parse(job);
    const key = story.keyOf(text);
    story.say("taken", key, job.toString("hex"));
    try {
      await story.handle(text);
    } catch (error) {
      story.say("failed", key, error.message);
      await again(() => r.hset(queue + ":errors", job, error.message));
      continue;
    }
    story.say("done", key);
    await again(() => r.lrem(queue + ":backup", 1, job));
  }
  r.disconnect();
}

(async () => {
  const queues = process.argv.slice(2).map(serve);
  story.say("ready", "-", process.pid);
  await Promise.all(queues);
  process.exit(0);
})();
