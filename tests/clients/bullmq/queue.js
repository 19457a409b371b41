// queue.js QUEUE pause|resume|retry ID|schedule MS: an operator's call of BullMQ's own API. Prints the error of a call that fails.
const { open } = require("./bullmq");
const { say } = require("./story");

(async () => {
  const [name, what, id] = process.argv.slice(2);
  const queue = open(name);
  if (what === "retry") await (await queue.getJob(id)).retry("failed");
  else if (what === "schedule") await queue.upsertJobScheduler("s1", { every: Number(id) }, { name: "job", data: { text: "ok scheduled" } });
  else await queue[what]();
  say("called", id || "-", what);
  await queue.close();
  process.exit(0);
})().catch((error) => {
  say("error", "-", error);
  process.exit(1);
});
