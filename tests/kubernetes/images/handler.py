# The handler of the tests beside the worker of docs/worker-contract.md. A job is JSON: id, due, ms (how long it takes), and fail (the
# error). The list `ran` gets the start and the end of each run, with the time of Redis.
import json
import os
import socket
import time

import redis

r = redis.Redis.from_url(os.environ["REDIS_URL"])


def note(job, what):
    seconds, micros = r.time()
    r.rpush("ran", json.dumps({"id": job["id"], "at": seconds * 1000 + micros // 1000, "what": what, "by": socket.gethostname()}))


def handle(text):
    job = json.loads(text)
    note(job, "start")
    time.sleep(job.get("ms", 0) / 1000)
    if job.get("fail"):
        raise ValueError(job["fail"])
    note(job, "end")
