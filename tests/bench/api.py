"""Figures of page and API, each with its goal, by ratios in one run: api.py SIDECAR [BASE]

BASE is an earlier program, to compare sizes and memory. BENCH_ROUNDS=3. BENCH_ROWS=1000000: failures in the audit log.
BENCH_PARTS=sizes,memory,...: only these parts. The figures are medians of the rounds; docs/benchmarks.md explains them.
"""
import base64
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SIDECAR = os.path.realpath(sys.argv[1])
BASE = os.path.realpath(sys.argv[2]) if len(sys.argv) > 2 else None
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
TOKEN = "bench-token-0123456789"
REQUEUED = 20000  # failures of a round of requeues
RECORDS = 50000  # records of a round of ingest
JOBS, SPACING_S = 4000, 0.002  # of a round of promotions
VAIN = "/api/v1/failures?text=no-such-text-anywhere"
missed = []


def row(label, value, goal=None, most=True):
    met = goal is None or (value <= goal if most else value >= goal)
    if not met:
        missed.append(label)
    told = "" if goal is None else f"{'<=' if most else '>='} {goal:g}: {'met' if met else 'MISSED'}"
    print(f"| {label} | {value:.4g} | {told} |", flush=True)


def median_of(work):
    return statistics.median(work() for _ in range(ROUNDS))


def p99(values):
    return sorted(values)[int(len(values) * 0.99)]


class Redis:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"-":
            sys.exit(f"redis: {rest.decode()}")
        return int(rest) if kind == b":" else rest

    def calls(self, command):
        for line in self("INFO", "commandstats").decode().split("\r\n"):
            if line.startswith(f"cmdstat_{command}:"):
                return int(line.split("calls=")[1].split(",")[0])
        return 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sidecar:
    """A sidecar that has become ready."""

    def __init__(self, directory, program=SIDECAR, page=True, log="bench.db"):
        self.port, self.config, self.log = free_port(), directory / "bench.cfg", directory / log
        tokens = directory / "tokens"
        tokens.write_text(f"ann look,payloads,act {TOKEN}\n")
        extra = f'token_file = "{tokens}";' if page else "" if program == BASE else "page = false;"
        names = ("email", "again")
        queues = ", ".join(f'{{ name = "{name}"; heartbeat = "off"; }}' for name in names)
        self.config.write_text(
            f'redis: {{ url = "unix://{directory}/redis.sock"; }};\naudit: {{ path = "{self.log}"; retain = "3650d"; retain_rows = 0; retain_bytes = 0; }};\n'
            f"http: {{ port = {self.port}; {extra} }};\nqueues = ( {queues} );\n"
        )
        self.errors = open(directory / "sidecar.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([program, "run", "-c", self.config], stdout=self.errors, stderr=self.errors)
        until = time.time() + 60
        while self.status("/readyz") != 200:
            if time.time() > until or self.process.poll() is not None:
                sys.exit(f"the sidecar is not ready: {(directory / 'sidecar.log').read_text()}")
            time.sleep(0.05)
        time.sleep(2)  # its first look at queues and log

    def status(self, path):
        try:
            return self.ask(path)[0]
        except OSError:
            return 0

    def ask(self, path, body=None, connection=None):
        link = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if body:
            headers["Content-Type"] = "application/json"
        link.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        answer = link.getresponse()
        text = answer.read()
        if not connection:
            link.close()
        return answer.status, text

    def kib(self, field="VmRSS"):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(field):
                return int(line.split()[1])
        return 0

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.errors.close()


class Clients:
    """Threads that ask until the end of the block."""

    def __init__(self, count, work):
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(work,), daemon=True) for _ in range(count)]

    def run(self, work):
        while not self.over.is_set():
            work()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def searchers(sidecar):
    """16 clients of another process, each of which searches to the end again and again."""
    return subprocess.Popen([sys.executable, __file__, "--search", str(sidecar.port)])


def search(port):
    sidecar = Sidecar.__new__(Sidecar)
    sidecar.port = port

    def once():
        cursor = ""
        while cursor is not None:
            status, text = sidecar.ask(VAIN + cursor)
            following = json.loads(text).get("next") if status == 200 else None
            cursor = f"&cursor={following}" if following else None

    with Clients(16, once):
        time.sleep(3600)


def make_log(path):
    subprocess.run([SIDECAR, "audit", "import", "/dev/null", "--db", path], check=True, capture_output=True)
    db = sqlite3.connect(path)
    db.create_function("sha", 1, lambda text: hashlib.sha256(text.encode()).hexdigest())
    db.create_function("ref", 1, lambda event: base64.b32encode(bytes.fromhex(event[:16]))[:12].decode().lower())
    db.execute("PRAGMA synchronous = OFF")
    columns = "ref, event, kind, dialect, queue, job, type, worker, reason, term, sha256, answers, answers_ref, attempts, created, started, at, size, error, payload, \"group\""
    for first, count, queue in ((0, ROWS - REQUEUED, "email"), (ROWS - REQUEUED, REQUEUED, "again")):
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1 + ?2), "
            "rows AS MATERIALIZED (SELECT i, lower(hex(randomblob(32))) AS event, "
            "'{\"customer\":' || i || ',\"text\":\"' || hex(randomblob(80)) || '\"}' AS payload FROM n) "
            f"INSERT INTO events ({columns}) SELECT ref(event), event, 'failed', 'list', ?3, 'job-' || i, 'mail', 'worker-7', 'reported', '', "
            "sha(payload), '', '', 4, ?4 + i - 60000, ?4 + i - 1000, ?4 + i, length(payload), 'relay ' || i || ' says no', payload, 'default' FROM rows",
            (first, count, queue, int(time.time() * 1000) - 2 * ROWS),
        )
    db.execute("UPDATE facts SET value = (SELECT count(*) FROM events) WHERE name = 'rows'")
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def part_sizes(_directory, _redis):
    built = pathlib.Path(SIDECAR).parent / "gen" / "page"
    files = [path for path in built.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")]
    row("assets, KiB", sum(path.stat().st_size for path in files) / 1024, 64)
    row("assets gzipped, KiB", sum(path.stat().st_size for path in built.glob("*.gz")) / 1024, 20)

    def stripped(program):
        with tempfile.NamedTemporaryFile() as copy:
            subprocess.run(["strip", "-o", copy.name, program], check=True)
            return os.path.getsize(copy.name)

    def libraries(program):
        return {line.split()[0] for line in subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout.splitlines()}

    row("stripped program, KiB", stripped(SIDECAR) / 1024)
    if BASE:
        row("stripped program, to the base", stripped(SIDECAR) / stripped(BASE), 1.15)
        row("image, which has this program, MiB more", (stripped(SIDECAR) - stripped(BASE)) / (1 << 20), 0.3)
        row("new libraries", len(libraries(SIDECAR) - libraries(BASE)), 0)


def part_memory(directory, _redis):
    def rss(page, viewers=0, program=SIDECAR, log="bench.db"):
        sidecar = Sidecar(directory, program, page, log)

        def view():  # what a page of a queue asks every 5 s
            for path in ("status", "history?queue=email", "failures?limit=50", "failures/groups?by=reason"):
                sidecar.ask(f"/api/v1/{path}")
            time.sleep(5)

        with Clients(viewers, view):
            time.sleep(16)
            kib = sidecar.kib()
        sidecar.stop()
        return kib / 1024

    closed, opened, four = (median_of(work) for work in (lambda: rss(False), lambda: rss(True), lambda: rss(True, 4)))
    row("resident memory without page and tokens, MiB", closed)
    if BASE:
        base = median_of(lambda: rss(False, 0, BASE, "base.db"))  # an empty log: the base cannot read ours
        row("nobody looks, MiB more than the base", median_of(lambda: rss(True, 0, SIDECAR, "own.db")) - base, 0.2)
    row("nobody looks, MiB more than without page and tokens", opened - closed, 0.2)
    row("four pages open, MiB more", four - closed, 3)


def part_redis(directory, redis):
    sidecar = Sidecar(directory)

    def readings(viewers, seconds=20):
        with Clients(viewers, lambda: (sidecar.ask("/api/v1/status"), time.sleep(0.02))):
            time.sleep(1)
            before = redis.calls("hgetall"), time.time()
            time.sleep(seconds)
            return (redis.calls("hgetall") - before[0]) / (time.time() - before[1])

    row("readings of status in Redis a second, nobody looks", readings(0), 0)
    for viewers in (1, 4, 16):
        row(f"the same, {viewers} clients that ask all the time", readings(viewers), 0.55)
    sidecar.stop()


def part_list(directory, _redis):
    sidecar = Sidecar(directory)
    link = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=60)
    command = [SIDECAR, "audit", "list", "-n", "50", "-o", "json", "--db", sidecar.log]

    def timed(work):
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    def ratio():
        api = statistics.median(timed(lambda: sidecar.ask("/api/v1/failures?limit=50", connection=link)) for _ in range(60))
        return api / statistics.median(timed(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(30))

    row(f"50 of {ROWS} failures by the API, to `audit list -n 50 -o json`", median_of(ratio), 1.2)
    sidecar.stop()


def lateness(redis, path):
    consumer, late = Redis(path), []
    begin = time.time() + 1
    for i in range(JOBS):
        redis("ZADD", "email:delayed", f"{(begin + i * SPACING_S) * 1000:.0f}", f"{begin + i * SPACING_S:.4f} {i}")
    for _ in range(JOBS):
        job = consumer("BLPOP", "email", 30)
        late.append((time.time() - float(job[1].split()[0])) * 1000)
    return p99(late)


LOAD = """local payload = string.rep('p', 192) for i = 1, tonumber(ARGV[2]) do
local id = redis.sha1hex(ARGV[1] .. i) .. string.format('%024x', i)
redis.call('XADD', KEYS[1], '*', 'event', id, 'kind', 'failed', 'dialect', 'list', 'queue', 'email', 'job', i, 'reason', 'reported',
'error', string.rep('e', 80), 'attempts', 4, 'created', ARGV[3], 'started', ARGV[3], 'at', ARGV[3], 'term', 'bench-5000', 'size', 200,
'payload', payload .. string.format('%08d', i)) end return redis.call('XINFO', 'STREAM', KEYS[1])[8]"""


def ingest(redis):
    now = int(time.time() * 1000)
    for part in range(10):
        redis("EVAL", LOAD, 1, "sidecar:email:failures", f"{now}-{part}", RECORDS // 10, now)
    last = redis("XREVRANGE", "sidecar:email:failures", "+", "-", "COUNT", 1)[0][0]
    began = time.time()
    while not any(value.startswith(last + b" ") for value in redis("HVALS", "sidecar:email:auditors")):
        time.sleep(0.005)
    return RECORDS / (time.time() - began)


def part_search(directory, redis):
    sidecar, path = Sidecar(directory), f"{directory}/redis.sock"
    link = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=60)

    def probes():
        took = []
        for _ in range(500):
            began = time.perf_counter()
            sidecar.ask("/healthz", connection=link)
            took.append((time.perf_counter() - began) * 1000)
            time.sleep(0.01)
        return p99(took)

    def measured():
        return probes(), lateness(redis, path), ingest(redis)

    alone, meanwhile = [], []
    for _ in range(ROUNDS):
        alone.append(measured())
        busy = searchers(sidecar)
        time.sleep(2)
        meanwhile.append(measured())
        busy.kill()
        busy.wait()
        time.sleep(1.5)

    def middle(rounds, figure):
        return statistics.median(values[figure] for values in rounds)

    row("/healthz p99, nobody searches, ms", middle(alone, 0))
    row("/healthz p99 while 16 clients search in vain, ms", middle(meanwhile, 0), 50)
    row("lateness p99, nobody searches, ms", middle(alone, 1))
    row("lateness p99 meanwhile, to without", statistics.median(b[1] / a[1] for a, b in zip(alone, meanwhile)), 1.2)
    row("ingest, nobody searches, rows/s", middle(alone, 2))
    row("ingest meanwhile, to without", statistics.median(b[2] / a[2] for a, b in zip(alone, meanwhile)), 0.5, False)
    sidecar.stop()


def part_requeue(directory, redis):
    sidecar = Sidecar(directory)

    def clear():
        redis("DEL", "again")
        time.sleep(2)  # the auditor copies the records of the last run

    def by_command():
        clear()
        began = time.perf_counter()
        command = "audit requeue --where --queue again --again --yes --because bench".split()
        subprocess.run([SIDECAR, *command, "-c", sidecar.config], check=True, capture_output=True)
        return REQUEUED / (time.perf_counter() - began)

    def by_api():
        clear()
        began = time.perf_counter()
        order = {"action": "requeue", "filter": {"queue": "again"}, "again": True, "because": "bench"}
        plan = json.loads(sidecar.ask("/api/v1/answers", {**order, "dry_run": True})[1])["plan"]
        status, text = sidecar.ask("/api/v1/answers", {**order, "plan": plan})
        answer = json.loads(text)
        if status != 202:
            sys.exit(f"requeue: {text}")
        while redis("LLEN", "again") < REQUEUED:
            time.sleep(0.002)
        took = time.perf_counter() - began
        while json.loads(sidecar.ask(f"/api/v1/answers/{answer['id']}")[1])["state"] == "running":
            time.sleep(0.05)
        return REQUEUED / took

    rounds = [(by_command(), by_api()) for _ in range(ROUNDS)]
    row("requeue by `audit requeue`, jobs/s", statistics.median(one for one, _ in rounds))
    row("requeue by the API, to it", statistics.median(other / one for one, other in rounds), 0.8, False)
    sidecar.stop()


def part_large(directory, _redis):
    sidecar = Sidecar(directory)
    db = sqlite3.connect(sidecar.log)
    db.execute("UPDATE events SET payload = zeroblob(8388608), size = 8388608 WHERE seq IN (SELECT seq FROM events WHERE queue = 'email' ORDER BY at DESC LIMIT 50)")
    ref = db.execute("SELECT ref FROM events WHERE queue = 'email' ORDER BY at DESC LIMIT 1").fetchone()[0]
    db.commit()
    db.close()
    sidecar.ask("/api/v1/failures?job=none")
    before = sidecar.kib("VmHWM")
    size = len(sidecar.ask("/api/v1/failures?queue=email&limit=50")[1])
    sidecar.ask(f"/api/v1/failures/{ref}")
    row("list of 50 payloads of 8 MiB, KiB", size / 1024)
    row("highest resident memory for it and for one of them, MiB more", (sidecar.kib("VmHWM") - before) / 1024, 8)
    sidecar.stop()


def main():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="bench."))
    server = subprocess.Popen(
        [os.environ.get("REDIS_SERVER", "redis-server"), "--port", "0", "--unixsocket", directory / "redis.sock", "--dir", directory, "--save", "",
         "--logfile", directory / "redis.log"])
    try:
        while not (directory / "redis.sock").exists():
            time.sleep(0.05)
        redis = Redis(f"{directory}/redis.sock")
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, medians of {ROUNDS} rounds\n\n| measured | figure | goal |\n|---|---|---|")
        make_log(directory / "bench.db")
        parts = os.environ.get("BENCH_PARTS", "sizes,memory,redis,list,search,requeue,large").split(",")
        for name in parts:
            globals()[f"part_{name}"](directory, redis)
        print("every goal is met" if not missed else f"missed: {'; '.join(missed)}")
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(directory)


if __name__ == "__main__":
    if SIDECAR.endswith("--search"):
        search(int(sys.argv[2]))
    else:
        main()
