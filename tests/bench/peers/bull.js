// bull.js load START_MS RATE COUNT: adds delayed jobs to Bull's queue "q".
// bull.js serve: a worker whose processor does nothing.
// bull.js promote: the same worker with the queue paused, so that only Bull's promotion is at work (updateDelaySet-6.lua pushes to the
// list `paused` then).
const Bull = require("bull");
const { delayedJobs } = require("./jobs");

const queue = new Bull("q", process.env.REDIS_URL);

const verbs = {
  async load(...numbers) {
    for (const jobs of delayedJobs(...numbers)) await queue.addBulk(jobs.map((job) => ({ data: job.data, opts: job.opts })));
    await queue.close();
  },
  async promote() {
    await queue.pause();
    await verbs.serve();
  },
  async serve() {
    queue.process(async () => {});
    await queue.isReady();
    console.log("ready");
  },
};

verbs[process.argv[2]](...process.argv.slice(3).map(Number));
