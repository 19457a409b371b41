# produce.py QUEUE...: adds a JSON job for each line of stdin, "DELAY_MS KIND NUMBER TEXT", to the delayed zset of the queues in turn. To
# add a job again after an error changes nothing.
import json
import os
import sys
import time

import redis
from redis.cluster import RedisCluster

import story

r = RedisCluster.from_url(os.environ["REDIS_URL"], socket_timeout=10)
for number, line in enumerate(sys.stdin.buffer.read().decode().rstrip("\n").split("\n")):
    delay_ms, text = line.split(" ", 1)
    job = json.dumps({"id": story.key_of(text), "text": text}).encode()
    queue = sys.argv[1 + number % (len(sys.argv) - 1)]
    due_ms = int(time.time() * 1000) + int(delay_ms)
    while True:
        try:
            r.zadd(queue + ":delayed", {job: due_ms})
            break
        except (redis.RedisError, IndexError) as error:
            story.say("again", "-", repr(error))
            time.sleep(0.1)
    story.say("produced", story.key_of(text), job.hex())
