"""Measures the shapes in deploy/README.md: python3 tests/deploy/shapes.py [PODS [SECONDS]]. Starts a private redis-server, and of each
shape as many instances as it has, each scraped every 15 s: PODS sidecars of two queues, then two standalone instances with the 200 queues
of 40 applications, then an archive beside these. Prints connections to Redis, series, commands a second while idle, logs that copy each
failure, and resident memory; of the 200 queues also what 1,000 delayed jobs a second take."""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PROGRAM = os.environ.get("QS_PROGRAM", "build/queue-sidecar")
PODS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
SCRAPE = 15
AUDITORS = 256  # so many acknowledgements Redis keeps at most (trim.lua)
TWO = ["email", "sms"]
MANY = [f"app{app}-{queue}" for app in range(40) for queue in range(5)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Group:
    """The instances of one group, at a server of their own."""

    def __init__(self, home, queues):
        self.home = pathlib.Path(tempfile.mkdtemp(dir=home))
        self.queues = queues
        self.instances = []
        self.server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.home / "redis", "--save", "", "--dir", self.home], stdout=subprocess.DEVNULL
        )
        self.wait(lambda: self.ask("ping") == "PONG", "redis-server")

    def wait(self, condition, what):
        for _ in range(1200):
            if condition():
                return
            time.sleep(0.1)
        raise SystemExit(f"{what} is not there after two minutes")

    def ask(self, *words):
        done = subprocess.run(["redis-cli", "-s", self.home / "redis", *words], capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip()

    def add(self, leads=True):
        number, port = len(self.instances), free_port()
        names = ", ".join(f'{{ name = "{name}"; retry_times = 0; heartbeat = "off"; }}' for name in self.queues)
        config = self.home / f"{number}.cfg"
        config.write_text(
            f'group = "size"; redis = {{ socket = "{self.home}/redis"; }}; lock = {{ lead = {str(leads).lower()}; }};\n'
            f'audit = {{ path = "{self.home}/{number}.db"; }}; http = {{ port = {port}; }};\nqueues = ( {names} );\n'
        )
        log = open(self.home / f"{number}.log", "wb")
        process = subprocess.Popen([PROGRAM, "run", "-c", config], stderr=log)
        self.instances.append((process, port))

    def is_up(self, number):
        return re.search(rb'"msg":"(leading|standing by|watching the leader)"', (self.home / f"{number}.log").read_bytes())

    def scrape(self):
        """The number of series of each instance."""
        counts = []
        for _, port in self.instances:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                counts.append(len(re.findall(rb"^[a-z]", answer.read(), re.M)))
        return counts

    def commands(self):
        return int(re.search(r"total_commands_processed:(\d+)", self.ask("info", "stats")).group(1))

    def resident(self):
        status = [pathlib.Path(f"/proc/{process.pid}/status").read_text() for process, _ in self.instances]
        return [int(re.search(r"^VmRSS:\s+(\d+)", text, re.M).group(1)) / 1024 for text in status]

    def measure(self, what):
        for number in range(len(self.instances)):
            self.wait(lambda number=number: self.is_up(number), f"instance {number}")
        self.scrape()
        time.sleep(2)
        before, began, counts = self.commands(), time.monotonic(), []
        while time.monotonic() - began < SECONDS:
            counts = self.scrape()
            time.sleep(SCRAPE)
        rate = (self.commands() - before) / (time.monotonic() - began)
        self.ask("hset", f"{self.queues[0]}:errors", "job", "!broken")
        self.ask("lpush", f"{self.queues[0]}:backup", "job")
        logs = min(len(self.instances), AUDITORS)
        self.wait(lambda: int(self.ask("hlen", f"sidecar:{self.queues[0]}:auditors")) >= logs, "a copy in each log")
        connections = self.ask("client", "list").count("name=queue-sidecar")
        memory = self.resident()
        print(
            f"{what}: {connections} connections, {sum(counts)} series ({max(counts)} of the leader, {min(counts)} of another), "
            f"{rate:.1f} commands/s, {len(self.instances)} copies, {sum(memory):.0f} MiB ({max(memory):.1f} at most in one)",
            flush=True,
        )

    def load(self, what):
        """1,000 delayed jobs a second, spread over queues and time: processor time of the leader, and how late they come."""
        process, port = self.instances[0]
        number = 0

        def ticks():
            return sum(int(field) for field in pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])

        before, began = ticks(), time.monotonic()
        while time.monotonic() - began < SECONDS:
            now, lines = time.time() * 1000, []
            for part in range(1000):
                queue = self.queues[part * len(self.queues) // 1000]
                lines.append(f"ZADD {queue}:delayed {now + 1000 + part:.0f} job-{number}")
                number += 1
            lines += [f"LTRIM {queue} 1 0" for queue in self.queues]
            subprocess.run(["redis-cli", "-s", self.home / "redis", "--pipe"], input="\r\n".join(lines) + "\r\n", text=True, capture_output=True, check=True)
            time.sleep(max(0, 1 - (time.time() - now / 1000)))
        used = (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        buckets = {}
        for bound, count in re.findall(r'^queue_sidecar_lateness_seconds_bucket\{.*le="(.*?)"\} (\d+)$', text, re.M):
            buckets[float(bound)] = buckets.get(float(bound), 0) + int(count)
        late = min(bound for bound, count in buckets.items() if count >= 0.99 * max(buckets.values()))
        print(f"{what}: {max(buckets.values())} jobs, 99 % late by at most {late} s, {used * 1000:.0f}m of processor time", flush=True)

    def end(self):
        for process, _ in self.instances:
            process.terminate()
        for process, _ in self.instances:
            process.wait()
        self.server.terminate()
        self.server.wait()


def main():
    with tempfile.TemporaryDirectory() as home:
        groups = []
        try:
            groups.append(Group(home, TWO))
            for _ in range(PODS):
                groups[0].add()
            groups[0].measure(f"sidecar, {PODS} pods, 2 queues")
            groups.pop().end()
            groups.append(Group(home, TWO))
            for _ in range(2):
                groups[0].add()
            groups[0].measure("standalone, 2 pods, 2 queues")
            groups.pop().end()
            groups.append(Group(home, MANY))
            for _ in range(2):
                groups[0].add()
            groups[0].measure("standalone, 2 pods, 200 queues")
            groups[0].load("standalone, 200 queues, 1,000 delayed jobs/s")
            groups[0].add(leads=False)
            groups[0].measure("standalone and archive, 3 pods, 200 queues")
        finally:
            for group in groups:
                group.end()


if __name__ == "__main__":
    main()
