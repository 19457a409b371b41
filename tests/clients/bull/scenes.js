// The scenes of capture.js: each changes a queue step by step, and capture.js prints the keys after each step.
let now;
Date.now = () => now;
const START_MS = 1700000000000;
const tick = (ms) => (now += ms);
const restart = () => (now = START_MS);

const DATA = { text: "caf\u00e9 \u{1f600} \"q\" \\ \u2028", n: 12345678901234567890, list: [], more: { a: null } };

function failure() {
  const error = new Error("boom, caf\u00e9");
  error.stack = "Error: boom, caf\u00e9\n    at handle (worker.js:1:1)"; // the real one names files of this machine
  return error;
}

// Takes the job as a worker does: out of wait, into active, with its lock.
async function take({ queue }) {
  tick(10);
  return queue.getNextJob();
}

// Runs the stalled check of a worker. Without the interval the key `stalled-check`, which stops other workers, would have expired.
async function check({ queue, redis, scripts }) {
  tick(30000);
  await redis.del("bull:video:stalled-check");
  return scripts.moveUnlockedJobsToWait(queue);
}

async function dies(stand) {
  const job = await take(stand);
  await check(stand); // marks it
  await stand.redis.del(`bull:video:${job.id}:lock`);
}

const scenes = {
  async plain({ queue, step }) {
    await queue.add(DATA);
    await step("added");
    await queue.add("named", DATA, { jobId: "a:b", attempts: 3, backoff: { type: "exponential", delay: 1000 }, removeOnFail: 10 });
    await step("another, named, with an id");
  },
  async lifo({ queue, step }) {
    await queue.add({ text: "1" });
    await queue.add({ text: "2" }, { lifo: true });
    await step("added");
  },
  async priorities({ queue, step }) {
    for (const priority of [3, 1, 2, 1, 3]) await queue.add({ text: String(priority) }, { priority });
    await queue.add({ text: "none" });
    await step("added");
  },
  async delayed({ queue, scripts, step }) {
    await queue.add(DATA, { delay: 5000 });
    await queue.add({ text: "same ms" }, { delay: 5000 });
    await queue.add({ text: "priority" }, { delay: 6000, priority: 2 });
    await queue.add({ text: "priority" }, { delay: 6000, priority: 1 });
    await queue.add({ text: "own id" }, { delay: 7000, jobId: "a:b" });
    await step("added");
    tick(4999);
    await scripts.updateDelaySet(queue, Date.now());
    await step("1 ms early");
    tick(1);
    await scripts.updateDelaySet(queue, Date.now());
    await step("due this ms");
    tick(1);
    await scripts.updateDelaySet(queue, Date.now());
    await step("due 1 ms ago");
    await queue.pause();
    tick(5000);
    await scripts.updateDelaySet(queue, Date.now());
    await step("the rest due, paused");
    await queue.resume();
    await step("resumed");
  },
  async repeated({ queue, step }) {
    await queue.add({ text: "every" }, { repeat: { every: 10000 } });
    await step("added");
  },
  async debounced({ queue, step }) {
    await queue.add({ text: "1" }, { debounce: { id: "d1", ttl: 600000 } });
    await queue.add({ text: "2" }, { debounce: { id: "d1", ttl: 600000 } });
    await queue.add({ text: "3" }, { debounce: { id: "d2" } });
    await step("added");
  },
  async completed(stand) {
    await stand.queue.add(DATA);
    const job = await take(stand);
    await stand.step("taken");
    tick(100);
    await job.moveToCompleted("result", false, true);
    await stand.step("completed");
  },
  async failed(stand) {
    await stand.queue.add(DATA, { attempts: 3, backoff: 1000 });
    for (const which of ["first", "second", "third"]) {
      const job = await take(stand);
      tick(100);
      await job.moveToFailed(failure(), false);
      await stand.step(`${which} time`);
      tick(2000);
      await stand.scripts.updateDelaySet(stand.queue, Date.now());
    }
    await (await stand.queue.getJob("1")).retry();
    await stand.step("retried by hand");
  },
  async removeOnFail(stand) {
    await stand.queue.add(DATA, { removeOnFail: true });
    await (await take(stand)).moveToFailed(failure(), false);
    await stand.step("failed");
  },
  async stalled(stand) {
    await stand.queue.add(DATA);
    await take(stand);
    await check(stand);
    await stand.step("marked, its lock is there");
    await stand.redis.del("bull:video:1:lock");
    await check(stand);
    await stand.step("once");
    await dies(stand);
    await check(stand);
    await stand.step("twice");
  },
  async stalledRemoveOnFail(stand) {
    await stand.queue.add(DATA, { removeOnFail: true });
    await dies(stand);
    await check(stand);
    await dies(stand);
    await check(stand);
    await stand.step("twice");
  },
  async stalledPaused(stand) {
    await stand.queue.add(DATA);
    await dies(stand);
    await stand.queue.pause();
    await check(stand);
    await stand.step("once");
  },
};

module.exports = { scenes, restart };
