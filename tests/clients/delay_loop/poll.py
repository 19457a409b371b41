# poll.py ZSET: a consumer without a sidecar. It reads one message at a time from the zset, and the consumer whose ZREM removes the
# message has it. QS_POLL_MS: how long it sleeps when no message is due.
import json
import os
import sys
import time

import redis

import story

r = redis.Redis.from_url(os.environ["REDIS_URL"])
stop = story.stopping()
nap = int(os.environ.get("QS_POLL_MS", "1000")) / 1000
story.say("ready", "-", os.getpid())
while not stop.is_set():
    values = r.zrangebyscore(sys.argv[1], 0, time.time(), start=0, num=1)
    if not values:
        stop.wait(nap)
    elif r.zrem(sys.argv[1], values[0]):
        text = json.loads(values[0])["text"]
        story.say("taken", story.key_of(text), values[0].hex())
        story.handle(text)
        story.say("done", story.key_of(text))
