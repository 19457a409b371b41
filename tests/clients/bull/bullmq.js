// bullmq.js QUEUE: a producer of BullMQ, which has Bull's prefix and other keys. Adds one job and prints the keys, except the hash of
// the job, because its options have no fixed order.
const path = require("path");
const { readKeys } = require("./keys");

const version = "5.63.2";
const { Queue } = require(require.resolve("bullmq", { paths: [path.join(__dirname, version)] }));

(async () => {
  const { hostname: host, port } = new URL(process.env.REDIS_URL);
  const queue = new Queue(process.argv[2] || "video", { connection: { host, port } });
  await queue.add("named", { text: "ok 1 x" }, { timestamp: 1700000000000 });
  const lines = await readKeys(await queue.client);
  for (const line of lines.filter(({ key }) => !key.endsWith(":1")))
    process.stdout.write(JSON.stringify({ what: "bullmq: added", version, ...line }) + "\n");
  await queue.close();
  process.exit(0);
})();
