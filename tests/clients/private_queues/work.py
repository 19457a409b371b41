# work.py NAME: moves a job from the main list into a list of its own, works on the tail of that list until the list is empty, and
# takes the next job. A set has the ids of done jobs. A job that fails QS_ATTEMPTS times goes to the list of dead letters.
#
# QS_MAIN, QS_PRIVATE (a prefix), QS_DEDUP, QS_DLQ and QS_REGISTRY name the keys; QS_BEAT_MS > 0 keeps a heartbeat fights:NAME_alive.
import json
import os
import sys
import threading

import redis

import story

name = sys.argv[1]
main = os.environ.get("QS_MAIN", "fight-requests")
mine = os.environ.get("QS_PRIVATE", "queue-") + name
dedup = os.environ.get("QS_DEDUP", "fights-done")
dlq = os.environ.get("QS_DLQ", "fights-dlq")
registry = os.environ.get("QS_REGISTRY", "")
counter = "attempts-" + name
most = int(os.environ.get("QS_ATTEMPTS", "3"))
beat_ms = int(os.environ.get("QS_BEAT_MS", "0"))
r = redis.Redis.from_url(os.environ["REDIS_URL"])
stop = story.stopping()


def beat():
    while not stop.is_set():
        r.set("fights:" + name + "_alive", os.getpid(), px=2 * beat_ms)
        stop.wait(beat_ms / 1000)


def finish(job, *more):
    # One transaction, or a crash between the commands could lose the job.
    with r.pipeline(transaction=True) as pipe:
        for command in more:
            pipe.execute_command(*command)
        pipe.lrem(mine, 1, job)
        pipe.set(counter, 0)
        pipe.execute()


def work_on(job):
    document = json.loads(job)
    key = story.key_of(document["text"])
    if r.sismember(dedup, document["id"]):
        finish(job)
        return story.say("duplicate", key, job.hex())
    if r.incr(counter) > most:
        story.say("dead", key, job.hex())
        return finish(job, ("LPUSH", dlq, job))
    story.say("taken", key, job.hex())
    try:
        story.handle(document["text"])
    except ValueError as error:
        return story.say("failed", key, error)  # the job stays the tail, and is tried again
    story.say("done", key)
    finish(job, ("SADD", dedup, document["id"]))
    return story.say("finished", key)


if registry:
    r.sadd(registry, mine)
if beat_ms > 0:
    threading.Thread(target=beat, daemon=True).start()
story.say("ready", "-", os.getpid())
while not stop.is_set():
    try:
        tail = r.lindex(mine, -1)
        if tail is None:
            r.blmove(main, mine, 1, "RIGHT", "LEFT")
        else:
            work_on(tail)
    except redis.RedisError as error:
        story.say("error", "-", repr(error))
        stop.wait(0.1)
