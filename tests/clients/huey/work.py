# work.py NAME: a consumer of huey. With QS_NATIVE=on its own scheduler looks for due tasks once a second, as by default, else once a
# minute.
import os

from huey.consumer import Consumer

import story
from app import huey


class ReadyConsumer(Consumer):
    def start(self):
        super().start()
        story.say("ready", "-", os.getpid())


interval = 1 if os.environ.get("QS_NATIVE") == "on" else 60
ReadyConsumer(huey, workers=int(os.environ.get("QS_THREADS", "1")), scheduler_interval=interval, graceful_signal="TERM").run()
