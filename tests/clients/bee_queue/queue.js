// bee-queue, and the keys of its job ids as bytes in hex.
const { URL } = require("url");
const Queue = require("bee-queue");

const { hostname, port } = new URL(process.env.REDIS_URL);

module.exports = {
  open: (name, settings) => new Queue(name, { redis: { host: hostname, port: Number(port) }, ...settings }),
  hex: (id) => Buffer.from(String(id)).toString("hex"),
};
