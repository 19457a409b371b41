"""docs/recipes.md, PostgreSQL: each event is once in the table, whatever is killed, away or replaced."""
import os
import signal
import subprocess
import unittest
from pathlib import Path

from rig import PROGRAM, Failures, block, until

BIN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
# The server refuses to run as root. nobody may own its files.
DROP = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


class Server:
    """A PostgreSQL of this test, on a socket in `place`."""

    def __init__(self, place):
        self.data, self.place = place / "data", place
        place.mkdir()
        if DROP:
            os.chown(place, 65534, 65534)
        self.tool("initdb", "-A", "trust", "-U", "me", "-E", "UTF8", "--no-sync", "-D", str(self.data))
        self.env = dict(os.environ, PGHOST=str(place), PGUSER="me", PGDATABASE="postgres")

    def tool(self, *argv):
        done = subprocess.run([*DROP, BIN / argv[0], *argv[1:]], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=dict(os.environ, LC_ALL="C.UTF-8"))
        assert done.returncode == 0, done.stdout

    def start(self):
        self.tool("pg_ctl", "-w", "-t", "120", "-D", str(self.data), "-l", str(self.place / "server.log"), "-o", f"-k {self.place} -h '' -F", "start")

    def stop(self):
        self.tool("pg_ctl", "-w", "-t", "120", "-m", "immediate", "-D", str(self.data), "stop")

    def sql(self, text):
        done = subprocess.run(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1"], input=text, capture_output=True, text=True, env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def number(self, where):
        return int(self.sql(f"SELECT count(*) FROM failed_jobs WHERE {where}"))


class Postgres(unittest.TestCase):
    def setUp(self):
        self.rig = Failures()
        self.addCleanup(self.rig.end)
        self.rig.begin()
        self.server = Server(self.rig.dir / "postgres")
        self.server.start()
        self.addCleanup(lambda: subprocess.run([*DROP, BIN / "pg_ctl", "-m", "immediate", "-D", self.server.data, "stop"], cwd="/", capture_output=True))
        self.server.sql(block("failures.sql"))
        self.script = self.rig.dir / "to-postgres.sh"
        self.script.write_text(block("to-postgres.sh"))
        self.env = dict(self.server.env, PATH=f"{PROGRAM.parent}:{os.environ['PATH']}")
        self.tail = None
        self.addCleanup(self.kill_tail)

    def run_tail(self):
        """In a process group of its own, as in a container; as root with a read-only directory of the log."""
        prefix = []
        if os.geteuid() == 0:
            place = self.rig.log.parent
            prefix = ["unshare", "-m", "sh", "-ec", f'mount --bind {place} {place}; mount -o remount,bind,ro {place}; exec "$@"', "sh"]
        with open(self.rig.dir / "tail.log", "ab") as output:
            self.tail = subprocess.Popen([*prefix, "sh", self.script, self.rig.log, "pod-1"], env=self.env, stdin=subprocess.DEVNULL,
                                         stdout=output, stderr=output, start_new_session=True)

    def kill_tail(self):
        if self.tail:
            try:
                os.killpg(self.tail.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.tail.wait(20)
            self.tail = None

    def reaches(self, count, where="true"):
        until(f"{count} failures are in PostgreSQL", lambda: self.server.number(where) >= count, 120)
        self.assertEqual(self.server.number(where), count)

    def test_bytes_states_and_erasures_arrive(self):
        self.run_tail()  # before there is a log
        rig = self.rig.run_sidecar()
        rig.fail(error=b"it's \\ 100% \xe2\x82\xac :name\n$$ ';--", payload=b'{"a": "\\\\u0000 \\u0000 \' \\\\"}')
        rig.fail(payload=b"\xff\x00 no text", error=b"no\x00text")
        rig.fail(queue="video", payload=b"x" * 3000000)
        self.reaches(3)
        rows = self.server.sql("SELECT error, payload FROM failed_jobs WHERE job_id = 'job-1'")
        self.assertEqual(rows, "it's \\ 100% € :name\n$$ ';--|{\"a\": \"\\\\u0000 \\u0000 ' \\\\\"}")
        self.assertEqual(self.server.sql("SELECT encode(decode(payload, 'base64'), 'hex') FROM failed_jobs WHERE payload_encoding = 'base64'"),
                         b"\xff\x00 no text".hex())
        self.reaches(1, "length(payload) = 3000000")
        rig.run("audit", "requeue", rig.ref("job-1"), "--because", "tried again")
        rig.run("audit", "erase", rig.ref("job-3"), "--because", "asked by letter")
        self.reaches(1, "state = 'requeued' AND job_id = 'job-1'")
        self.reaches(1, "payload = '' AND job_id = 'job-3'")
        self.assertIn("video|reported|1|1|", self.server.sql(block("by-hour.sql")))

    def test_a_restart_goes_on_where_it_was(self):
        rig = self.rig.run_sidecar()
        self.run_tail()
        rig.fail(20)
        self.reaches(20)
        self.kill_tail()
        rig.fail(15)
        until("the log has all", lambda: rig.failures() == 35)
        self.server.sql("DELETE FROM queue_events WHERE job_id <= 'job-2'")  # does not come back: the tail is behind it
        gone = 20 - self.server.number("true")
        self.run_tail()
        self.reaches(35 - gone)
        self.assertGreater(gone, 5)

    def test_what_failed_while_the_server_was_away_comes_later(self):
        rig = self.rig.run_sidecar()
        self.run_tail()
        rig.fail(3)
        self.reaches(3)
        self.server.stop()
        rig.fail(1)
        self.tail.wait(90)  # one failure is enough to notice
        self.run_tail()
        self.assertNotEqual(self.tail.wait(90), 0)
        rig.fail(2)
        self.server.start()
        self.run_tail()
        self.reaches(6)

    def test_a_lost_log_gives_no_failure_twice(self):
        rig = self.rig.run_sidecar()
        self.run_tail()
        rig.fail(5)
        self.reaches(5)
        rig.end_sidecar()
        for path in rig.log.parent.glob("audit.db*"):
            path.unlink()
        rig.fail(2)
        rig.run_sidecar()
        self.reaches(7)
        rig.fail(1)
        self.reaches(8)

    def test_two_logs_of_a_group_give_each_failure_once(self):
        rig = self.rig.run_sidecar()
        rig.fail(5)
        until("the log has all", lambda: rig.failures() == 5)
        copy = rig.dir / "copy"
        copy.mkdir()
        rig.run("audit", "backup", str(copy / "audit.db"))
        self.run_tail()
        self.reaches(5)
        self.kill_tail()
        other = subprocess.Popen(["sh", self.script, copy / "audit.db", "pod-2"], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            until("the second log is read", lambda: self.server.sql("SELECT count(DISTINCT ref) FROM queue_tails") == "1"
                  and self.server.sql("SELECT count(*) FROM queue_tails") == "2")
            self.reaches(5)
        finally:
            os.killpg(other.pid, signal.SIGKILL)
            other.wait(20)


if __name__ == "__main__":
    unittest.main()
