"""docs/recipes.md, Litestream: a copy that follows the log. `test_litestream.py measure [RATE] [SECONDS]` prints what it costs."""
import os
import subprocess
import sys
import time
import unittest

from rig import BUILD, PROGRAM, Failures, block, until

LITESTREAM = BUILD / "bin/litestream"


class Litestream:
    """A Litestream beside the log of a rig."""

    def __init__(self, rig):
        self.rig, self.replica, self.child = rig, rig.dir / "replica", None
        self.config = rig.dir / "litestream.yml"
        text = block("litestream.yml").replace("/var/lib/queue-sidecar/audit.db", str(rig.log)).replace("/backup/audit", str(self.replica))
        self.config.write_text(text)

    def start(self):
        with open(self.rig.dir / "litestream.log", "ab") as output:
            self.child = subprocess.Popen([LITESTREAM, "replicate", "-config", self.config], stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def end(self, kill=False):
        if self.child:
            (self.child.kill if kill else self.child.terminate)()
            self.child.wait(90)
            self.child = None

    def restored(self):
        """The number of events of a restored copy, which the program reads."""
        copy = self.rig.dir / f"restored-{time.monotonic_ns()}.db"
        done = subprocess.run([LITESTREAM, "restore", "-config", self.config, "-o", copy, self.rig.log], capture_output=True, text=True)
        if done.returncode != 0:
            return -1
        listed = subprocess.run([PROGRAM, "audit", "list", "--db", copy, "-o", "jsonl"], capture_output=True, text=True)
        self.copy = copy
        return len(listed.stdout.splitlines()) if listed.returncode == 0 else -1


class Copy(unittest.TestCase):
    def setUp(self):
        self.rig = Failures()
        self.addCleanup(self.rig.end)
        self.rig.begin()
        self.stream = Litestream(self.rig)
        self.addCleanup(self.stream.end)

    def reaches(self, count):
        until(f"the copy has {count}", lambda: self.stream.restored() >= count, 120)
        self.assertEqual(self.stream.restored(), count)

    def test_the_copy_follows_restarts_of_both(self):
        rig = self.rig.run_sidecar()
        rig.fail(20)
        until("the log has all", lambda: rig.failures() == 20)
        self.stream.start()
        self.reaches(20)
        rig.fail(5)
        self.reaches(25)
        self.stream.end(kill=True)
        rig.fail(5)
        until("the log has all", lambda: rig.failures() == 30)
        self.stream.start()
        self.reaches(30)
        rig.end_sidecar(kill=True)
        rig.run_sidecar()
        rig.fail(5)
        self.reaches(35)
        rig.end_sidecar()
        rig.run_sidecar()
        rig.fail(5)
        self.reaches(40)
        rig.end_sidecar()
        for path in rig.log.parent.glob("audit.db*"):
            path.unlink()
        rig.run_sidecar()
        rig.fail(5)
        self.reaches(45)
        said = (rig.dir / "output").read_text()
        self.assertNotIn("damaged", said)
        self.assertNotIn("replaced", said)
        self.assertEqual(list(rig.log.parent.glob("*corrupt*")), [])

    def test_an_erasure_completes_without_it(self):
        rig = self.rig.run_sidecar()
        self.stream.start()
        rig.fail(1, payload=b'{"to": "ann.of.the.secret@example.org"}')
        rig.fail(20)
        self.reaches(21)
        rig.run("audit", "erase", rig.ref("job-1"))
        until("the sidecar waits for Litestream", lambda: "until no other process" in (rig.dir / "output").read_text())
        self.assertNotIn("rewrote audit log", (rig.dir / "output").read_text())
        self.stream.end()
        until("the sidecar has rewritten its log", lambda: "rewrote audit log" in (rig.dir / "output").read_text())
        self.stream.start()
        rig.fail(1)
        self.reaches(22)
        self.assertNotIn(b"ann.of.the.secret", self.stream.copy.read_bytes())


def used_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def size(place):
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def measure(rate=100, seconds=60):
    for with_copy in (False, True):
        rig = Failures()
        stream = None
        try:
            rig.begin()
            rig.run_sidecar()
            rig.fail(1)
            until("the log is there", lambda: rig.failures() == 1)
            stream = Litestream(rig)
            if with_copy:
                stream.start()
                time.sleep(3)
            began, wal, cpu = time.monotonic(), 0, [used_s(rig.sidecar.pid), used_s(stream.child.pid) if with_copy else 0]
            for n in range(rate * seconds):
                rig.fail(payload=b'{"id": %d, "pad": "%s"}' % (n, b"x" * 200))
                if n % 10 == 0:
                    wal = max(wal, os.path.getsize(f"{rig.log}-wal"))
                    time.sleep(max(0, began + n / rate - time.monotonic()))
            took = time.monotonic() - began
            until("the log has all", lambda: rig.failures() == rate * seconds + 1, 60)
            time.sleep(3)
            cpu = [used_s(rig.sidecar.pid) - cpu[0], used_s(stream.child.pid) - cpu[1] if with_copy else 0]
            print(f"{'with' if with_copy else 'without'} Litestream: {rate * seconds / took:.0f} failures/s; CPU of the sidecar {100 * cpu[0] / took:.1f} %, of "
                  f"Litestream {100 * cpu[1] / took:.1f} %; log {os.path.getsize(rig.log) >> 10} KiB, -wal at most {wal >> 10} KiB"
                  + (f"; replica {size(stream.replica) >> 10} KiB, beside the log {size(rig.log.parent / ('.' + rig.log.name + '-litestream')) >> 10} KiB, "
                     f"memory {int(next(line for line in open(f'/proc/{stream.child.pid}/status') if line.startswith('VmHWM')).split()[1]) >> 10} MiB"
                     if with_copy else ""))
        finally:
            if stream:
                stream.end()
            rig.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*map(int, sys.argv[2:]))
    else:
        unittest.main()
