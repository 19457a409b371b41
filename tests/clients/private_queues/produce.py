# produce.py: LPUSHes a job {"id", "text"} to QS_MAIN for each line of stdin, "0 KIND NUMBER TEXT"; the id is KIND-NUMBER.
import json
import os
import sys

import redis

import story

r = redis.Redis.from_url(os.environ["REDIS_URL"])
for line in sys.stdin.buffer.read().decode().rstrip("\n").split("\n"):
    text = line.split(" ", 1)[1]
    job = json.dumps({"id": story.key_of(text), "text": text}).encode()
    r.lpush(os.environ.get("QS_MAIN", "fight-requests"), job)
    story.say("produced", story.key_of(text), job.hex())
