// Common code of the Node workers: the kinds of jobs, and the lines that a test counts. tests/clients/README.md explains both.
const fs = require("fs");

function say(word, key, detail = "-") {
  const text = String(detail).split(/\s+/).join(" ").trim() || "-";
  fs.writeSync(1, `${word} ${key} ${Date.now()} ${text}\n`); // one write a line: several workers share a file
}

function first(key) {
  try {
    fs.closeSync(fs.openSync("seen-" + key, "wx"));
    return true;
  } catch {
    return false;
  }
}

const keyOf = (text) => text.split(" ").slice(0, 2).join("-");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let hanging = 0;

async function handle(text) {
  const kind = text.split(" ")[0];
  const key = keyOf(text);
  if (kind === "poison") throw new Error("poison, caf\u00e9");
  if (kind === "flaky" && first(key)) throw new Error("not yet");
  if (kind === "die" && first(key)) process.kill(process.pid, "SIGKILL");
  if (kind === "hang" && first(key)) {
    hanging++;
    say("hangs", key, process.pid);
    await new Promise(() => setInterval(() => {}, 600000));
  }
  if (kind === "slow") await sleep(20);
  while (kind === "wait" && !fs.existsSync("go")) await sleep(10);
}

module.exports = { say, keyOf, handle, hanging: () => hanging };
