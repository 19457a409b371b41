import os
import sys
import time

import redis

r = redis.Redis.from_url(os.environ["REDIS_URL"])
job = sys.stdin.buffer.read()
# CONTRACT
