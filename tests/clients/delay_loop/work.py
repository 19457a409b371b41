# work.py LIST: the consumer of poll.py beside a sidecar: BRPOP of the ready list instead of the poll of the zset.
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
            story.say("failed", story.key_of(text), error)  # the message is lost: this layout keeps no copy
