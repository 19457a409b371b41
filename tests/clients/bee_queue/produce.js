// produce.js QUEUE: saves a job for each line of stdin, "DELAY_MS KIND NUMBER TEXT". A job of the kind flaky has a retry after 200 ms.
const fs = require("fs");
const story = require("./story");
const { open, hex } = require("./queue");

async function main() {
  const queue = open(process.argv[2], { isWorker: false, getEvents: false, storeJobs: false });
  for (const line of fs.readFileSync(0, "utf8").trimEnd().split("\n")) {
    const [, delay, text] = /^(\d+) (.*)$/.exec(line);
    const due = Date.now() + Number(delay);
    const job = queue.createJob({ text }).retries(1).backoff("fixed", 200);
    if (Number(delay)) job.delayUntil(due);
    await job.save();
    story.say("produced", story.keyOf(text), `${(due / 1000).toFixed(6)} ${hex(job.id)}`);
  }
  await queue.close();
}

main();
