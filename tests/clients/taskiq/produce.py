# produce.py: adds the jobs of stdin, lines "DELAY_MS KIND NUMBER TEXT". taskiq has no delays without a scheduler.
import asyncio
import sys

import story
from tasks import broker, run


async def main():
    await broker.startup()
    for line in sys.stdin:
        text = line.rstrip("\n").split(" ", 1)[1]
        await run.kiq(text)
        story.say("produced", story.key_of(text))
    await broker.shutdown()


asyncio.run(main())
