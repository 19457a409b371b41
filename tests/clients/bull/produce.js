// produce.js QUEUE: adds a job for each line of stdin, "DELAY_MS KIND NUMBER TEXT". QS_OPTS is JSON: more options of add().
const { open } = require("./bull");
const { say, keyOf } = require("./story");

(async () => {
  const queue = open(process.argv[2]);
  queue.on("error", (error) => say("error", "-", error));
  const more = JSON.parse(process.env.QS_OPTS || "{}");
  const lines = require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean);
  for (const line of lines) {
    const space = line.indexOf(" ");
    const text = line.slice(space + 1);
    const job = await queue.add({ text }, { delay: Number(line.slice(0, space)), ...more });
    say("produced", keyOf(text), `${job.id} ${Buffer.from(JSON.stringify(job.data)).toString("hex")}`);
  }
  await queue.close();
  process.exit(0);
})();
