// The handler of the tests: see tests/clients/python/handler.py.
const fs = require("fs");

function first(name) {
  try {
    fs.closeSync(fs.openSync(name, "wx"));
    return true;
  } catch {
    return false;
  }
}

module.exports = async function handle(job) {
  const [kind, number] = job.toString("latin1").split(" ");
  fs.appendFileSync("runs", job.toString("hex") + "\n");
  if (kind === "flaky" && first("seen-" + number)) throw new Error("not yet");
  if (kind === "poison") throw new Error("poison, caf\u00e9");
  if (kind === "hopeless") throw new Error("!no such address");
  if (kind === "hang" && first("seen-" + number)) {
    fs.appendFileSync("hangs", process.pid + "\n");
    await new Promise((resolve) => setTimeout(resolve, 600000));
  }
  while (kind === "wait" && !fs.existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 10));
  fs.appendFileSync("done", job.toString("hex") + "\n");
};
