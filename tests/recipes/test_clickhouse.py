"""docs/recipes.md, ClickHouse by syslog-ng: each failure is once in the table, whatever is killed or away."""
import os
import random
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from rig import BUILD, PROGRAM, Failures, block, until

ROOT = BUILD / "clickhouse/root"
CONFIG = """<yandex><logger><level>warning</level><console>1</console></logger><http_port>{port}</http_port><listen_host>127.0.0.1</listen_host>
<path>{place}/</path><tmp_path>{place}/tmp/</tmp_path><users_config>{place}/users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>50000000</mark_cache_size></yandex>"""
USERS = """<yandex><profiles><default/></profiles><quotas><default/></quotas><users><default><password/><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></default></users></yandex>"""


class ClickHouse(unittest.TestCase):
    def setUp(self):
        self.rig = Failures()
        self.addCleanup(self.rig.end)
        self.rig.begin()
        self.place, self.port = self.rig.dir / "clickhouse", random.SystemRandom().randrange(20000, 30000)
        self.place.mkdir()
        (self.place / "config.xml").write_text(CONFIG.format(port=self.port, place=self.place))
        (self.place / "users.xml").write_text(USERS)
        libraries = [*ROOT.glob("usr/lib/*-linux-gnu"), ROOT / "usr/lib/syslog-ng", ROOT / "usr/lib"]
        self.env = dict(os.environ, LD_LIBRARY_PATH=":".join(map(str, libraries)), PATH=f"{PROGRAM.parent}:{os.environ['PATH']}")
        text = block("syslog-ng.conf").replace("127.0.0.1:8123", f"127.0.0.1:{self.port}").replace("/var/lib/queue-sidecar/audit.db", str(self.rig.log))
        (self.rig.dir / "syslog-ng.conf").write_text(text)
        self.start_server()
        self.ask(block("clickhouse.sql"))
        self.start_syslog()

    def start(self, *argv):
        with open(self.rig.dir / "output", "ab") as output:
            child = subprocess.Popen(argv, env=self.env, cwd=self.rig.dir, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.addCleanup(self.kill, child)
        return child

    def kill(self, child):
        child.kill()
        child.wait(20)

    def start_server(self):
        self.server = self.start(ROOT / "usr/sbin/clickhouse-server", f"--config-file={self.place}/config.xml")
        until("ClickHouse answers", lambda: self.number("SELECT 1") == 1, 60)

    def start_syslog(self):
        place = self.rig.dir
        self.syslog = self.start(ROOT / "usr/sbin/syslog-ng", "-F", "--no-caps", "--stderr", "--module-path", str(ROOT / "usr/lib/syslog-ng/3.38"), "-f",
                                 f"{place}/syslog-ng.conf", "--persist-file", f"{place}/persist", "--pidfile", f"{place}/pid", "--control", f"{place}/control")

    def ask(self, query):
        return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", data=query.encode(), timeout=20).read().decode()

    def number(self, query):
        try:
            return int(self.ask(query))
        except (urllib.error.URLError, OSError):
            return -1

    def reaches(self, count):
        until(f"{count} failures are in ClickHouse", lambda: self.number("SELECT count() FROM queue_events FINAL WHERE kind = 'failed'") >= count, 120)
        self.assertEqual(self.number("SELECT count() FROM queue_events FINAL WHERE kind = 'failed'"), count)

    def test_each_failure_is_there_once(self):
        rig = self.rig.run_sidecar()
        rig.fail(20)
        rig.fail(1, queue="video", payload=b"x" * 3000000, error=b"it's \\ full\n\tline 2")
        self.reaches(21)
        self.assertEqual(self.ask("SELECT error, length(payload) FROM queue_events WHERE queue = 'video'"), "it\\'s \\\\ full\\n\\tline 2\t3000000\n")
        self.assertIn("email\treported\t20\t550 no such mailbox\n", self.ask(block("clickhouse-by-hour.sql")))
        self.kill(self.syslog)
        rig.fail(5)
        self.start_syslog()
        self.reaches(26)
        self.kill(self.server)
        rig.fail(5)
        until("the log has all", lambda: rig.failures() == 31)
        self.start_server()
        self.reaches(31)
        rig.run("audit", "erase", rig.ref("job-1"))
        until("the erasure is in ClickHouse", lambda: self.number("SELECT count() FROM queue_events WHERE kind = 'erased'") >= 1)
        self.ask(block("clickhouse-erase.sql"))
        until("the payload is gone", lambda: self.number("SELECT count() FROM queue_events WHERE kind = 'failed' AND payload = ''") >= 1
              and self.number("SELECT count() FROM queue_events WHERE job_id = 'job-1' AND payload != ''") == 0)
        self.assertEqual(self.number("SELECT count() FROM queue_events FINAL WHERE kind = 'failed' AND payload = ''"), 1)


if __name__ == "__main__":
    unittest.main()
