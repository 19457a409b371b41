# A huey app with one task. It says which bytes huey puts into its zset, and which of them huey itself moves to its list.
import os
import sys
import threading

from huey import RedisHuey

import story

huey = RedisHuey(sys.argv[1], url=os.environ["REDIS_URL"])
taken = threading.local()
storage = huey.storage
dequeue, add_to_schedule, read_schedule = storage.dequeue, storage.add_to_schedule, storage.read_schedule


def key_of(message):
    return story.key_of(huey.deserialize_task(message).args[0])


def remember():
    taken.message = dequeue()
    return taken.message


def say_delayed(message, due):
    story.say("delayed", key_of(message), f"{storage.convert_ts(due):.6f} {message.hex()}")
    add_to_schedule(message, due)


def say_promoted(now):
    messages = read_schedule(now)
    for message in messages:
        story.say("promoted", key_of(message), message.hex())
    return messages


storage.dequeue, storage.add_to_schedule, storage.read_schedule = remember, say_delayed, say_promoted


@huey.task(retries=1, retry_delay=0.2)
def job(text):
    story.say("taken", story.key_of(text), taken.message.hex())
    try:
        story.handle(text)
    except ValueError as error:
        story.say("failed", story.key_of(text), error)
        raise
    story.say("done", story.key_of(text))
