# work.py LIST: the third seed's consumer once a sidecar promotes: the poll of the zset has become a BRPOP of the ready list.
import json
import os
import sys

import redis

import story

r = redis.Redis.from_url(os.environ["REDIS_URL"])
stop = story.stopping()
story.say("ready", "-", os.getpid())
while not stop.is_set():
    try:
        got = r.brpop(sys.argv[1], 1)
    except redis.RedisError as error:
        story.say("error", "-", repr(error))
        stop.wait(0.1)
        continue
    if got:
        text = json.loads(got[1])["text"]
        story.say("taken", story.key_of(text), got[1].hex())
        try:
            story.handle(text)
            story.say("done", story.key_of(text))
        except ValueError as error:
            story.say("failed", story.key_of(text), error)  # and is gone: this layout keeps no copy
