// The handler of the tests for the worker of docs/dialects/bullmq.md.
const { say, keyOf, handle } = require("./story");

module.exports = async function (job) {
  const key = keyOf(job.data.text);
  say("taken", key, job.id);
  await handle(job.data.text);
  say("done", key, job.attemptsMade);
};
