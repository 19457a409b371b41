// Loads Bull of the version QS_BULL, and opens queues with the settings of the tests.
const path = require("path");

const version = process.env.QS_BULL || "4.16.5";
const load = (name) => require(require.resolve(name, { paths: [path.join(__dirname, version)] }));
const Bull = load("bull");

// Native timers "off": 2^31-1 ms, the longest time of a Node timer. Bull has no setting that stops workers from promoting.
const LONG_MS = 2 ** 31 - 1;
const native = (process.env.QS_NATIVE || "on") === "on";

function open(name) {
  const interval = Number(process.env.QS_STALLED_MS || 1000);
  return new Bull(name, process.env.REDIS_URL, {
    prefix: process.env.QS_PREFIX || "bull",
    settings: {
      stalledInterval: native ? interval : LONG_MS,
      guardInterval: native ? 5000 : LONG_MS,
      lockDuration: Number(process.env.QS_LOCK_MS || 2000),
      maxStalledCount: Number(process.env.QS_MAX_STALLED || 1),
    },
  });
}

module.exports = { open, load, version };
