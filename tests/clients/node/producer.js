const Redis = require("ioredis");

(async () => {
  const r = new Redis(process.env.REDIS_URL);
  const job = require("fs").readFileSync(0);
  // CONTRACT
  await r.quit();
})();
