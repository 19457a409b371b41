// Loads BullMQ of the version QS_BULLMQ, and opens queues with the settings of the tests. QS_SENTINELS is JSON: options of ioredis
// that find the primary by sentinels.
const path = require("path");

const version = process.env.QS_BULLMQ || "6.7.0";
const load = (name) => require(require.resolve(name, { paths: [path.join(__dirname, version)] }));
const { Queue, Worker, FlowProducer } = load("bullmq");

function options() {
  const { hostname: host, port } = new URL(process.env.REDIS_URL);
  const where = process.env.QS_SENTINELS ? JSON.parse(process.env.QS_SENTINELS) : { host, port };
  return { connection: { ...where, maxRetriesPerRequest: null }, prefix: process.env.QS_PREFIX || "bull" };
}

const open = (name) => new Queue(name, options());
const flows = () => new FlowProducer(options());
const work = (name, handler, more) => new Worker(name, handler, { ...options(), ...more });

module.exports = { open, flows, work, load, version };
