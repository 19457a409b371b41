# produce.py ZSET: adds a JSON message for each line of stdin, "DELAY_MS KIND NUMBER TEXT", to the zset. Scores are seconds with a
# fraction, as from time.time().
import json
import os
import sys
import time

import redis

import story

r = redis.Redis.from_url(os.environ["REDIS_URL"])
for line in sys.stdin.buffer.read().decode().rstrip("\n").split("\n"):
    delay_ms, text = line.split(" ", 1)
    message = json.dumps({"id": story.key_of(text), "text": text}).encode()
    due = time.time() + int(delay_ms) / 1000
    r.zadd(sys.argv[1], {message: due})
    story.say("produced", story.key_of(text), f"{due:.6f} {message.hex()}")
