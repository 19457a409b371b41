# The broker and the task that worker and producer share.
import os

from taskiq_redis import RedisStreamBroker

import story

# Its own recovery would begin after an hour. One entry at a time: others of a batch would be pending while they wait.
broker = RedisStreamBroker(url=os.environ["REDIS_URL"], consumer_id="0", idle_timeout=3600000, xread_block=200, xread_count=1)


@broker.task(task_name="run")
async def run(text):
    key = story.key_of(text)
    story.say("taken", key)
    story.handle(text)
    story.say("done", key)
