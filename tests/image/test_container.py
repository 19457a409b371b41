"""The hardened container without a network. It connects to redis-server by a unix socket."""
import base64
import hashlib
import json
import os
import pathlib
import shutil
import time

from engine import HARDENED, IMAGE, UID, EngineTest, NameServer, Redis, podman, wait

CONFIG = """
group = "image";
redis = { socket = "/run/redis/redis.sock"; };
lock = { ttl = "1s"; };
monitor = { scan_interval = "100ms"; };
queues = ( { name = "email"; protected_timeout = "1s"; retry_times = 1; heartbeat = "off"; } );
"""

TAKE_AND_FAIL = """
if redis.call('LMOVE', 'email', 'email:backup', 'RIGHT', 'LEFT') ~= ARGV[1] then return redis.error_reply('another job') end
return redis.call('HSET', 'email:errors', ARGV[1], ARGV[2])
"""


class Story(EngineTest):
    def setUp(self):
        super().setUp()
        for name in ("redis", "config", "audit"):
            (self.directory / name).mkdir()
        os.chown(self.directory / "audit", UID, UID)
        (self.directory / "config/queue-sidecar.cfg").write_text(CONFIG)
        self.redis = Redis(self.directory / "redis")
        self.addCleanup(self.redis.stop)
        self.redis.start()

    def start(self, name, *options):
        sidecar = self.container(
            name, "--network=none", *HARDENED, "--volume", f"{self.directory}/redis:/run/redis:ro",
            "--volume", f"{self.directory}/config:/etc/queue-sidecar:ro",
            "--volume", f"{self.directory}/audit:/var/lib/queue-sidecar", *options)
        sidecar.wait_ready()
        return sidecar

    def end(self, job, sidecar):
        """A worker takes a job and reports a permanent failure, in one script, because the timeout is short."""
        self.redis("LPUSH", "email", job)
        self.assertEqual(self.redis("EVAL", TAKE_AND_FAIL, "0", job, "!550 no such mailbox"), "1")
        wait(f"{job} is in the audit log", lambda: job in sidecar.failures())

    def expect_restricted(self, sidecar):
        """Checks the user, rights and limits of the process in /proc."""
        process = pathlib.Path(f"/proc/{sidecar.pid()}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        self.assertEqual(status["Uid"].split(), [str(UID)] * 4)
        self.assertEqual(status["Gid"].split(), [str(UID)] * 4)
        self.assertEqual([status[name].strip() for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")], ["0" * 16] * 4)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        self.assertEqual(status["Seccomp"].strip(), "2")
        self.assertLess(int(status["VmHWM"].split()[0]), 32 * 1024)
        writable = []
        for line in (process / "mountinfo").read_text().splitlines():
            left, right = line.split(" - ")
            if "rw" in left.split()[5].split(",") and right.split()[0] not in ("proc", "devpts", "mqueue", "tmpfs"):
                writable.append(left.split()[4])
        self.assertEqual([path for path in writable if not path.startswith("/etc/host")], ["/var/lib/queue-sidecar"])
        self.assertEqual(self.limit_of(process), 32 << 20)

    def limit_of(self, process):
        """Memory limit of the process's control group in bytes, for cgroup version 1 or 2."""
        groups = dict(line.split(":", 2)[1:] for line in (process / "cgroup").read_text().splitlines())
        if "memory" in groups:
            return int(pathlib.Path("/sys/fs/cgroup/memory" + groups["memory"], "memory.limit_in_bytes").read_text())
        return int(pathlib.Path("/sys/fs/cgroup" + groups[""], "memory.max").read_text())

    def test_serves_jobs(self):
        sidecar = self.start("qs-story")
        self.redis("ZADD", "email:delayed", int(time.time() * 1000) + 300, "later")
        wait("the delayed job falls due", lambda: self.redis("LRANGE", "email", "0", "-1") == "later")
        self.assertEqual(self.redis("BLMOVE", "email", "email:backup", "RIGHT", "LEFT", "0"), "later")  # the worker dies
        wait("the stalled job comes back", lambda: self.redis("LRANGE", "email", "0", "-1") == "later")
        self.redis("DEL", "email")
        self.end("poison", sidecar)
        self.assertIn("!550 no such mailbox", sidecar.sidecar("audit", "list"))
        told = podman("exec", "--env", "TZ=Europe/Berlin", sidecar.name, "queue-sidecar", "audit", "list")
        self.assertRegex(told, r"AT \(CES?T\)")
        podman("healthcheck", "run", sidecar.name)
        self.assertEqual(sidecar.get("/readyz")[0], 200)
        self.expect_restricted(sidecar)

    def test_lives_while_redis_is_away(self):
        sidecar = self.start("qs-away")
        self.redis.stop()
        wait("the sidecar is not ready", lambda: sidecar.sidecar("healthcheck", "--ready", code=None).returncode == 1)
        self.assertEqual(sidecar.get("/readyz")[0], 503)
        sidecar.sidecar("healthcheck")
        self.redis.start()
        sidecar.wait_ready()
        self.end("after", sidecar)

    def test_next_container_keeps_the_audit_log(self):
        """SIGTERM ends the container soon, with exit code 0. The next container on the volume keeps its audit log, also after SIGKILL."""
        first = self.start("qs-first")
        self.end("one", first)
        code, took = first.stop()
        self.assertEqual(code, 0)
        self.assertLess(took, 10)  # after 10 s an engine would send SIGKILL
        second = self.start("qs-second")
        self.end("two", second)
        podman("kill", "--signal", "KILL", second.name)
        wait("the second container has ended", lambda: second.state("Status") == "exited")
        third = self.start("qs-third")
        self.end("three", third)
        self.assertEqual(third.failures(), ["one", "two", "three"])
        self.assertEqual(sorted({path.stat().st_uid for path in (self.directory / "audit").iterdir()}), [UID])

    def test_sorts_more_rows_than_memory_holds(self):
        """SQLite makes temporary files, although /tmp is read-only."""
        with open(self.directory / "audit/in.jsonl", "w", encoding="utf-8") as file:
            for number in range(20_000):
                job = f"job {number}"
                event = hashlib.sha256(job.encode())
                ref = base64.b32encode(event.digest())[:12].decode().lower()
                row = {"event": event.hexdigest(), "ref": ref, "queue": "email", "dialect": "list", "kind": "failed",
                       "job_id": job, "reason": "reported", "error": "x" * 500, "attempts": 1,
                       "at": "2026-11-21T02:00:00.000Z", "payload": job, "size": len(job), "sha256": event.hexdigest()}
                print(json.dumps(row), file=file)
        sidecar = self.start("qs-large")
        self.assertIn("20,000 added", sidecar.sidecar("audit", "import", "/var/lib/queue-sidecar/in.jsonl"))
        self.assertEqual(sidecar.sidecar("audit", "list", "--all-kinds", "-n", "0", "-o", "csv").count("job "), 2 * 20_000)

    def test_sighup_reloads_the_config(self):
        """An engine sends SIGHUP to process 1 of the container."""
        sidecar = self.start("qs-config")
        before = sidecar.metric("queue_sidecar_reloads_total")
        (self.directory / "config/queue-sidecar.cfg").write_text(CONFIG.replace('"1s"; retry_times', '"2s"; retry_times'))
        podman("kill", "--signal", "HUP", sidecar.name)
        wait("the new config is loaded", lambda: sidecar.metric("queue_sidecar_reloads_total") == before + 1)

    def test_runs_as_any_user(self):
        """Some clusters run each project as a user without a name, in group 0."""
        os.chown(self.directory / "audit", 0, 0)
        (self.directory / "audit").chmod(0o770)
        sidecar = self.start("qs-user", "--user=1000740000:0")
        self.end("one", sidecar)
        (ref,) = (event["ref"] for event in json.loads(sidecar.sidecar("audit", "list", "-o", "json")))
        sidecar.sidecar("audit", "requeue", ref)
        wait("the job is back", lambda: self.redis("LRANGE", "email", "0", "-1") == "one")

    def test_needs_no_volume(self):
        """docker and podman give the read-only container an anonymous volume, which is writable."""
        shutil.rmtree(self.directory / "audit")
        sidecar = self.container("qs-bare", "--network=none", *HARDENED, "--volume", f"{self.directory}/redis:/run/redis:ro",
                                 "--volume", f"{self.directory}/config:/etc/queue-sidecar:ro")
        sidecar.wait_ready()
        self.end("bare", sidecar)


class Names(EngineTest):
    def test_asks_dns(self):
        """In the image only the C library resolves names."""
        names = NameServer()
        self.addCleanup(names.close)
        for name in ("redis", "config"):
            (self.directory / name).mkdir()
        redis = Redis(self.directory / "redis", port=6379)
        self.addCleanup(redis.stop)
        redis.start()
        text = CONFIG.replace('socket = "/run/redis/redis.sock"', 'host = "redis.example.org"')
        (self.directory / "config/queue-sidecar.cfg").write_text(text)
        sidecar = self.container("qs-dns", "--network=host", "--dns=127.0.0.1", *HARDENED,
                                 "--volume", f"{self.directory}/config:/etc/queue-sidecar:ro")
        sidecar.wait_ready()
        self.assertIn("redis.example.org", names.asked)


class Refusals(EngineTest):
    def refused(self, *options, command=()):
        done = podman("run", "--rm", "--network=none", *HARDENED, *options, IMAGE, *command, code=None)
        return done.returncode, done.stderr

    def test_no_config(self):
        code, said = self.refused()
        self.assertEqual(code, 78)
        self.assertIn("/etc/queue-sidecar/queue-sidecar.cfg", said)

    def test_bad_config(self):
        (self.directory / "queue-sidecar.cfg").write_text('queues = ( { name = "email"; protected_timout = "1s"; } );')
        code, said = self.refused("--volume", f"{self.directory}:/etc/queue-sidecar:ro")
        self.assertEqual(code, 78)
        self.assertIn("protected_timeout", said)

    def test_no_shell(self):
        code, _ = self.refused("--entrypoint", "/bin/sh")
        self.assertEqual(code, 127)

    def test_check_reads_standard_input(self):
        """The image can check a config of this machine without a mount of its directory."""
        for config, code in ((CONFIG, 0), ("queues = 1;", 78)):
            done = podman("run", "-i", "--rm", "--network=none", *HARDENED, IMAGE, "check", "-c", "/dev/stdin", code=None,
                          input=config)
            self.assertEqual(done.returncode, code, done.stderr)
