"""A small client of Redis, and jobs for the worker of the images: a producer, and what became of its jobs."""
import collections
import json
import random
import socket
import threading
import time

from cluster import wait


class RedisError(Exception):
    pass


class Redis:
    """One connection. It is made again after an error, and a command is then sent once more if `again` is true."""

    def __init__(self, address, password=None):
        self.address, self.password = address, password
        self.file = self.socket = None
        self.lock = threading.Lock()

    def connect(self):
        self.socket = socket.create_connection((self.address, 6379), timeout=15)
        self.file = self.socket.makefile("rb")
        if self.password:
            self.send(("AUTH", self.password))
            self.reply()

    def send(self, words):
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts))

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the connection ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        if int(rest) < 0:
            return None
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2].decode(errors="surrogateescape")
        return [self.reply() for _ in range(int(rest))]

    def __call__(self, *words):
        with self.lock:
            try:
                if self.socket is None:
                    self.connect()
                self.send(words)
                return self.reply()
            except OSError:
                self.close()
                raise

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = self.file = None

    def answers(self):
        try:
            return self("PING") == "PONG"
        except (OSError, RedisError):
            return False

    def now(self):
        seconds, micros = self("TIME")
        return int(seconds) * 1000 + int(micros) // 1000


class Producer(threading.Thread):
    """Makes jobs at a rate until `stop`, 7 of 10 of them delayed by up to two seconds. Each takes a worker `ms`."""

    def __init__(self, redis, rate=20, ms=50):
        super().__init__(daemon=True)
        self.redis, self.rate, self.ms = Redis(redis.address, redis.password), rate, ms
        self.made = {}
        self.redis("DEL", "ran")
        self.ending = threading.Event()
        self.start()

    def run(self):
        chance, begin = random.Random(1), time.monotonic()
        while not self.ending.wait(max(0, begin + len(self.made) / self.rate - time.monotonic())):
            number = len(self.made)
            delayed, delay = chance.random() < 0.7, chance.randint(50, 2000)
            while not self.ending.is_set():
                try:
                    self.make(f"j{number}", delay if delayed else 0)
                    break
                except OSError:
                    time.sleep(0.2)  # the same bytes again: a zset takes them once, so jobs that are not delayed come twice at worst

    def make(self, name, delay):
        due = self.redis.now() + delay
        job = json.dumps({"id": name, "due": due, "ms": self.ms})
        if delay:
            self.redis("ZADD", "email:delayed", due, job)
        else:
            self.redis("LPUSH", "email", job)
        self.made[name] = due

    def made_more(self, number=20):
        """Waits until `number` more jobs were made."""
        goal = len(self.made) + number
        wait(f"{number} more jobs are made", lambda: len(self.made) >= goal)

    def stop(self):
        """Ends the producer. Returns the fate of all jobs when the queue is empty."""
        self.ending.set()
        self.join()
        lists = {"email": "LLEN", "email:backup": "LLEN", "email:delayed": "ZCARD", "email:errors": "HLEN"}

        def left():
            jobs = {key: self.redis(command, key) for key, command in lists.items()}
            jobs["email:backup"] -= sum(entry.startswith("sidecar-sentinel:") for entry in self.redis("LRANGE", "email:backup", 0, -1))
            return {key: number for key, number in jobs.items() if number > 0}

        wait("the queue is empty", lambda: not left(), told=lambda: str(left()))
        return Fate(self.redis, self.made)


class Fate:
    """What became of jobs: `lost` never ended, `early` began before their time, `twice` ended twice."""

    def __init__(self, redis, made):
        starts, ends = collections.defaultdict(list), collections.Counter()
        for text in redis("LRANGE", "ran", 0, -1):
            run = json.loads(text)
            if run["what"] == "start":
                starts[run["id"]].append(run["at"])
            else:
                ends[run["id"]] += 1
        self.made = len(made)
        self.lost = [name for name in made if not ends[name]]
        self.early = [name for name in made if starts[name] and min(starts[name]) < made[name]]
        self.twice = [name for name in made if ends[name] > 1]
        self.restarted = [name for name in made if len(starts[name]) > 1]
        self.late = max((min(starts[name]) - made[name] for name in made if starts[name]), default=0)

    def __str__(self):
        return (f"{self.made} jobs, lost {self.lost[:5]}, early {self.early[:5]}, ended twice {self.twice[:5]}, "
                f"{len(self.restarted)} started again, at most {self.late} ms late")
