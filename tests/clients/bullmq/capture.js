// capture.js QUEUE: adds one job and prints the keys, except the hash of the job, because its options have no fixed order.
const { open, load, version } = require("./bullmq");
const { readKeys } = require("./keys");

(async () => {
  const queue = open(process.argv[2] || "video");
  await queue.add("named", { text: "ok 1 x" }, { timestamp: 1700000000000 });
  const lines = await readKeys(new (load("ioredis"))(process.env.REDIS_URL));
  for (const line of lines.filter(({ key }) => !key.endsWith(":1")))
    process.stdout.write(JSON.stringify({ what: "added", version, ...line }) + "\n");
  await queue.close();
  process.exit(0);
})();
