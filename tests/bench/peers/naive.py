"""The loop that many projects have: `naive.py serve` polls a zset and moves one due job at a time; the client whose ZREM removes the
job has it. It sleeps 10 ms when no job is due, as the recipe in "Redis in Action" (6.4.2, poll_queue) does.

`naive.py load START_MS RATE COUNT` adds the jobs, for the sidecar and the floor too.
"""
import os
import sys
import time

import redis

PAUSE_S = 0.01
JOBS_PER_REQUEST = 1000
r = redis.Redis.from_url(os.environ["REDIS_URL"])


def load(start_ms, rate, count):
    for first in range(0, count, JOBS_PER_REQUEST):
        numbers = range(first, min(first + JOBS_PER_REQUEST, count))
        r.zadd("q:delayed", {f"{i:0100}": start_ms + (i * 1000 // rate if rate else 0) for i in numbers})


def serve():
    while True:
        jobs = r.zrangebyscore("q:delayed", "-inf", time.time() * 1000, start=0, num=1)
        if not jobs:
            time.sleep(PAUSE_S)
        elif r.zrem("q:delayed", jobs[0]):
            r.lpush("q", jobs[0])


if sys.argv[1] == "load":
    load(*map(int, sys.argv[2:]))
else:
    serve()
