// bullmq.js load START_MS RATE COUNT: adds delayed jobs to BullMQ's queue "q".
// bullmq.js serve: a worker whose processor does nothing. BullMQ has no promotion apart from workers: the script with which a worker
// takes its next job promotes first (moveToActive-11.lua, includes/promoteDelayedJobs.lua).
const { Queue, Worker } = require("bullmq");
const { delayedJobs } = require("./jobs");

const { hostname: host, port } = new URL(process.env.REDIS_URL);
const connection = { host, port: Number(port) };

const verbs = {
  async load(...numbers) {
    const queue = new Queue("q", { connection });
    for (const jobs of delayedJobs(...numbers)) await queue.addBulk(jobs);
    await queue.close();
  },
  async serve() {
    const worker = new Worker("q", async () => {}, { connection });
    await worker.waitUntilReady();
    console.log("ready");
  },
};

verbs[process.argv[2]](...process.argv.slice(3).map(Number));
