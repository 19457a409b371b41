#!/usr/bin/env python3
"""compare.py SIDECAR TOOLS PACKAGES OUT.json: gives each peer the same delayed jobs, in turns, and writes what was measured.

Each run has a redis-server of its own. The peer is started first; then its own client library adds the jobs, of 100 bytes each; then
observe.c watches from the moment at which the first job is due. `storm`: all jobs are due at one moment. The other loads: so many
jobs fall due each second. Commands are those of INFO commandstats, also those inside scripts; processor time of Redis is that of its
main thread. In a storm both are without the commands of observe.c, whose cost the first run of each round (no peer) tells; else they
are of the first seconds, and lateness and PING of the rest.
"""
import collections
import glob
import json
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

SIDECAR, TOOLS, PACKAGES, OUT = sys.argv[1:]
HERE = pathlib.Path(__file__).parent
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SECONDS = int(os.environ.get("BENCH_SECONDS", "8"))
STORM_JOBS = 20000
STORM_LIMIT_S = 20
BLIND_S = 5  # the longest poll interval, which is asynq's
GRACE_S = 8
QUIET_S = 2

# blind_s: observe.c looks only after this time, so that costs are the peer's alone.
Load = collections.namedtuple("Load", "name rate jobs limit_s blind_s")
LOADS = [Load("storm", 0, STORM_JOBS, STORM_LIMIT_S, 0)] + [
    Load(f"{rate}/s", rate, rate * SECONDS, SECONDS + GRACE_S, BLIND_S) for rate in (1000, 5000)
]

# look: where observe.c sees the jobs arrive. package: the folder of build/peers that the peer needs.
Peer = collections.namedtuple("Peer", "look load serve package")
NAIVE = [f"{PACKAGES}/python/bin/python", f"{HERE}/naive.py"]
JAVA = ["java", "-cp", f"{PACKAGES}/delayed_queue/lib/*:{PACKAGES}/delayed_queue/classes", "DelayedQueue"]
ASYNQ = [f"{PACKAGES}/asynq/asynq"]
BULL = ["node", f"{HERE}/bull.js"]
BULLMQ = ["node", f"{HERE}/bullmq.js"]
BULL_DELAYED = "zset bull:q:delayed"
PEERS = {
    "floor": Peer("list q", NAIVE, [f"{TOOLS}/floor", "PORT"], "python"),
    "sidecar": Peer("list q", NAIVE, [SIDECAR, "run", "-c", "CONFIG"], "python"),
    "Python loop": Peer("list q", NAIVE, [*NAIVE, "serve"], "python"),
    "delayedQueue": Peer("list de_paymentcheck", JAVA, [*JAVA, "serve"], "delayed_queue"),
    "asynq": Peer("list asynq:{default}:pending", ASYNQ, [*ASYNQ, "serve"], "asynq"),
    "Bull paused": Peer("list bull:q:paused", BULL, [*BULL, "promote"], "node"),
    "Bull": Peer(BULL_DELAYED, BULL, [*BULL, "serve"], "node"),
    "BullMQ": Peer(BULL_DELAYED, BULLMQ, [*BULLMQ, "serve"], "node"),
}

# The settings of conf/minimal.cfg, with files in the directory of the run.
CONFIG = """group = "bench"; redis = {{ host = "127.0.0.1"; port = {port}; }};
audit = {{ path = "{directory}/audit.db"; }}; http = {{ port = 0; }};
queues = ( {{ name = "q"; protected_timeout = "3m"; }} );
"""


class Run:
    """One peer, one load, one redis-server."""

    def __init__(self, directory):
        self.directory = directory
        self.children = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.environment = {**os.environ, "REDIS_URL": f"redis://127.0.0.1:{self.port}", "NODE_PATH": f"{PACKAGES}/node/node_modules"}
        (pathlib.Path(directory) / "sidecar.cfg").write_text(CONFIG.format(port=self.port, directory=directory))
        server = os.environ.get("REDIS_SERVER", "redis-server")
        self.start([server, "--port", str(self.port), "--unixsocket", f"{directory}/redis.sock", "--dir", directory, "--save", ""])
        while self.redis("PING", check=False).strip() != "PONG":
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.send_signal(signal.SIGKILL)
            child.wait()

    def start(self, command):
        places = {"CONFIG": f"{self.directory}/sidecar.cfg", "PORT": str(self.port)}
        command = [places.get(part, part) for part in command]
        log = open(f"{self.directory}/log", "ab")
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=self.environment)
        self.children.append(child)
        return child

    def redis(self, *words, check=True):
        return subprocess.run(["redis-cli", "-s", f"{self.directory}/redis.sock", *words], text=True, capture_output=True, check=check).stdout

    def observe(self, look, load, start_ms):
        words = [f"{TOOLS}/observe", self.directory, *look.split(), load.jobs, start_ms, load.rate, load.limit_s, load.blind_s]
        return json.loads(subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True).stdout)

    def serve(self, peer):
        """Starts the peer and waits until it works."""
        child = self.start(peer.serve)
        if peer.look == "list q":
            self.redis("ZADD", "q:delayed", "0", "warm-up")
            working = self.redis("BRPOP", "q", "30").strip()
        else:
            working = child.stdout.readline()
        if not working:
            sys.exit(f"{peer.serve[0]} does not start: {pathlib.Path(self.directory, 'log').read_text()[-2000:]}")
        return child


def processor_us(pid):
    """Processor time of the living threads of a process, to the nanosecond."""
    return sum(int(pathlib.Path(path).read_text().split()[0]) for path in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1000


def resident_mib(pid):
    return next(int(line.split()[1]) / 1024 for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS"))


def measure_nobody():
    """What Redis spends on one request of observe.c (us), and how long PING takes without a peer."""
    with tempfile.TemporaryDirectory() as directory, Run(directory) as run:
        seen = run.observe("list q", Load("nobody", 0, 1, QUIET_S, 0), int(time.time() * 1000))
        return seen["redis_us"] / seen["requests"], seen["ping_ms"]


def measure(peer, load, lead_s, us_a_request):
    """One run. Returns None if the jobs were not all there before the first was due."""
    with tempfile.TemporaryDirectory() as directory, Run(directory) as run:
        child = run.serve(peer)
        start_s = int(time.time() + lead_s) + 1  # a whole second: asynq drops fractions of due times
        subprocess.run([*peer.load, "load", str(start_s * 1000), str(load.rate), str(load.jobs)], env=run.environment, check=True)
        if time.time() > start_s - 0.5:
            return None
        time.sleep(start_s - 0.3 - time.time())
        before_us = processor_us(child.pid)
        seen = run.observe(peer.look, load, start_s * 1000)
        peer_us = processor_us(child.pid) - before_us
        own = 0 if load.blind_s else seen["requests"]
        counted = seen["counted"] or math.nan
        watched = max(load.jobs - (seen["counted"] if load.blind_s else 0), 1)
        return {
            "jobs_per_s": seen["arrived"] / seen["seconds"],
            "first_ms": None if load.blind_s else seen.get("first_ms"),
            "late_p50_ms": seen["late_ms"]["p50"],
            "late_p99_ms": seen["late_ms"]["p99"],
            "late_max_ms": seen["late_ms"]["max"],
            "early": seen["early"] / watched,
            "not_ready": 1 - seen["arrived"] / load.jobs,
            "ping_p99_ms": seen["ping_ms"]["p99"],
            "ping_max_ms": seen["ping_ms"]["max"],
            "commands": (seen["commands"] - own) / counted,
            "redis_us": (seen["redis_us"] - own * us_a_request) / counted,
            "peer_us": peer_us / max(seen["arrived"], 1),
            "rss_mib": resident_mib(child.pid),
        }


def measure_surely(name, load, us_a_request, leads_s):
    while (found := measure(PEERS[name], load, leads_s[name, load], us_a_request)) is None:
        leads_s[name, load] *= 2
    return found


def by_metric(rounds):
    """The values of all rounds, with four digits. NaN has no place in JSON."""

    def digits(value):
        return None if value is None or math.isnan(value) else float(f"{value:.4g}")

    return {key: [digits(one[key]) for one in rounds] for key in rounds[0]}


def machine():
    server = subprocess.run([os.environ.get("REDIS_SERVER", "redis-server"), "--version"], text=True, capture_output=True, check=True)
    return {
        "redis": server.stdout.split()[2].removeprefix("v="),
        "cpus": os.cpu_count(),
        "load": [round(value, 1) for value in os.getloadavg()],
        "nice": os.nice(0),
    }


def write(results, nobody):
    told = {"rounds": len(nobody), "seconds": SECONDS, "storm_jobs": STORM_JOBS, "machine": machine(), "nobody": nobody}
    told["peers"] = list(results["storm"])
    told["results"] = {load: {name: by_metric(rounds) for name, rounds in found.items()} for load, found in results.items()}
    text = json.dumps(told, indent=1)
    pathlib.Path(OUT).write_text(re.sub(r"\[[^][{}]*\]", lambda row: " ".join(row[0].split()), text) + "\n")


def main():
    names = os.environ.get("PEERS", ",".join(PEERS)).split(",")
    names = [name for name in names if os.path.exists(f"{PACKAGES}/{PEERS[name].package}/fetched")]
    results = {load.name: {name: [] for name in names} for load in LOADS}
    leads_s = {(name, load): 2 + load.jobs / 5000 for name in names for load in LOADS}
    nobody = []
    for number in range(ROUNDS):
        us_a_request, ping = measure_nobody()
        nobody.append({"redis_us_a_request": us_a_request, "ping_p99_ms": ping["p99"], "ping_max_ms": ping["max"]})
        for load in LOADS:
            for name in names:
                found = measure_surely(name, load, us_a_request, leads_s)
                results[load.name][name].append(found)
                shown = "  ".join(f"{key} {value:.4g}" for key, value in found.items() if value is not None)
                print(f"round {number + 1}, {load.name}, {name}: {shown}", file=sys.stderr)
        write(results, nobody)


main()
