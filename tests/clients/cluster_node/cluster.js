// Opens a client of the Cluster that REDIS_URL is a node of.
const Redis = require("ioredis");

exports.open = () => {
  const { hostname, port } = new URL(process.env.REDIS_URL);
  const r = new Redis.Cluster([{ host: hostname, port: Number(port) }], { clusterRetryStrategy: () => 100 });
  r.on("error", () => {}); // commands report it, too
  return r;
};
