# work.py: a worker of taskiq-redis in one process, as `taskiq worker` runs it in its children.
import asyncio
import os

from taskiq.api import run_receiver_task

import story
from tasks import broker

stop = story.stopping()


async def main():
    receiver = asyncio.create_task(run_receiver_task(broker, run_startup=True, max_async_tasks=1))
    story.say("ready", "-", os.getpid())
    while not stop.is_set() and not receiver.done():
        await asyncio.sleep(0.05)
    receiver.cancel()
    await asyncio.gather(receiver, return_exceptions=True)
    await broker.shutdown()


asyncio.run(main())
