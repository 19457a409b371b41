// produce.js QUEUE: adds a job for each line of stdin, "DELAY_MS KIND NUMBER TEXT". QS_OPTS is JSON: more options of add(). With
// QS_PARENT each job becomes the child of a job of its own, in the queue of this name.
const { open, flows } = require("./bullmq");
const { say, keyOf } = require("./story");

(async () => {
  const name = process.argv[2];
  const queue = open(name);
  const flow = flows();
  queue.on("error", (error) => say("error", "-", error));
  const more = JSON.parse(process.env.QS_OPTS || "{}");
  const lines = require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean);
  for (const line of lines) {
    const space = line.indexOf(" ");
    const text = line.slice(space + 1);
    const opts = { delay: Number(line.slice(0, space)), ...more };
    let job;
    if (process.env.QS_PARENT) {
      const child = { name: "child", queueName: name, data: { text }, opts };
      const parent = { name: "parent", queueName: process.env.QS_PARENT, data: { text: "ok parent-" + keyOf(text) } };
      job = (await flow.add({ ...parent, children: [child] })).children[0].job;
    } else {
      job = await queue.add("job", { text }, opts);
    }
    say("produced", keyOf(text), `${job.id} ${Buffer.from(JSON.stringify(job.data)).toString("hex")}`);
  }
  await flow.close();
  await queue.close();
  process.exit(0);
})();
