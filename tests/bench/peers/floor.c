// floor PORT: what a client can do that only asks for a bare script again and again: no fence, no checks, no sleep until the next
// due time. Moves due jobs from the zset q:delayed to the list q.
#include "../bench.h"

enum { PAUSE_US = 200 };

static const char SCRIPT[] = "local t = redis.call('TIME') "
                             "local now = string.format('%s%03d', t[1], math.floor(t[2] / 1000)) "
                             "local jobs = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 400) "
                             "if #jobs == 0 then return 0 end "
                             "redis.call('LPUSH', KEYS[2], unpack(jobs)) "
                             "redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #jobs - 1) return #jobs";

int main(int argc, char **argv) {
    if (argc != 2) die("usage: %s PORT", argv[0]);
    redisContext *redis = redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10));
    if (!redis || redis->err) die("redis: %s", redis ? redis->errstr : "no memory");
    redisReply *sha = redis_ask(redis, "SCRIPT LOAD %s", SCRIPT);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1UL);
    for (;;)
        if (redis_do(redis, "EVALSHA %s 2 q:delayed q", sha->str) == 0) sleep_us(PAUSE_US);
}
