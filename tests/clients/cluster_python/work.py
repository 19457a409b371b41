# work.py QUEUE...: a worker of dialect list in a Cluster, by redis-py's RedisCluster: one thread for each queue. It tries a command again
# that fails while a slot moves or a replica takes over.
import json
import os
import sys
import threading

import redis
from redis.cluster import RedisCluster

import story

r = RedisCluster.from_url(os.environ["REDIS_URL"], socket_timeout=10)
stop = story.stopping()


def again(command, *args):
    while True:
        try:
            return command(*args)
        except (redis.RedisError, IndexError) as error:  # IndexError: RedisCluster knows no node for a moment
            story.say("again", "-", repr(error))
            stop.wait(0.1)


def serve(queue):
    while not stop.is_set():
        job = again(r.blmove, queue, queue + ":backup", 1, "RIGHT", "LEFT")
        if job is None:
            continue
        text = json.loads(job)["text"]
        key = story.key_of(text)
        story.say("taken", key, job.hex())
        try:
            story.handle(text)
        except ValueError as error:
            story.say("failed", key, error)
            again(r.hset, queue + ":errors", job, str(error))
        else:
            story.say("done", key)
            again(r.lrem, queue + ":backup", 1, job)


threads = [threading.Thread(target=serve, args=(queue,)) for queue in sys.argv[1:]]
for thread in threads:
    thread.start()
story.say("ready", "-", os.getpid())
for thread in threads:
    thread.join()
