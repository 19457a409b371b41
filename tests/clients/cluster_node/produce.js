// produce.js QUEUE...: adds a JSON job for each line of stdin, "DELAY_MS KIND NUMBER TEXT", to the delayed zset of the queues in turn. To
// add a job again after an error changes nothing.
const fs = require("fs");
const { setTimeout: pause } = require("timers/promises");
const story = require("./story");
const { open } = require("./cluster");

(async () => {
  const r = open();
  const queues = process.argv.slice(2);
  const lines = fs.readFileSync(0, "utf8").replace(/\n$/, "").split("\n");
  for (let i = 0; i < lines.length; i++) {
    const text = lines[i].slice(lines[i].indexOf(" ") + 1);
    const job = Buffer.from(JSON.stringify({ id: story.keyOf(text), text }));
    const due = Date.now() + parseInt(lines[i], 10);
    for (let done = false; !done; ) {
      try {
        await r.zadd(queues[i % queues.length] + ":delayed", due, job);
        done = true;
      } catch (error) {
        story.say("again", "-", error);
        await pause(100);
      }
    }
    story.say("produced", story.keyOf(text), job.toString("hex"));
  }
  r.disconnect();
})();
