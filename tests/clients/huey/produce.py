# produce.py NAME: schedules a task for each line of stdin, "DELAY_MS KIND NUMBER TEXT". huey pushes each task to the list; a consumer
# moves it to the zset if it is not due yet.
import sys
import time

import story
from app import huey, job, key_of

enqueue = huey.storage.enqueue


def say_enqueue(message, priority=None):
    enqueue(message, priority)
    story.say("produced", key_of(message), f"{due:.6f} {message.hex()}")


huey.storage.enqueue = say_enqueue
for line in sys.stdin.buffer.read().decode().rstrip("\n").split("\n"):
    delay_ms, text = line.split(" ", 1)
    due = time.time() + int(delay_ms) / 1000
    if int(delay_ms):
        job.schedule((text,), delay=int(delay_ms) / 1000)
    else:
        job(text)
