// Reads all keys of a database with their content, as {key, type, hex}: hashes and sets sorted, streams without their records.
async function readKey(redis, key) {
  const type = await redis.type(key);
  const members = {
    string: async () => [await redis.getBuffer(key)],
    list: () => redis.lrangeBuffer(key, 0, -1),
    set: async () => (await redis.smembersBuffer(key)).sort(Buffer.compare),
    zset: () => redis.zrangeBuffer(key, 0, -1, "WITHSCORES"),
    hash: async () => {
      const flat = await redis.callBuffer("HGETALL", key);
      const pairs = flat.flatMap((field, i) => (i % 2 ? [] : [[field, flat[i + 1]]]));
      return pairs.sort((a, b) => Buffer.compare(a[0], b[0])).flat();
    },
    stream: async () => [],
  };
  return { type, hex: (await members[type]()).map((one) => one.toString("hex")) };
}

async function readKeys(redis) {
  const lines = [];
  for (const key of (await redis.keys("*")).sort()) lines.push({ key, ...(await readKey(redis, key)) });
  return lines;
}

module.exports = { readKeys };
