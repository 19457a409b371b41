"""A package from its installation to its end, on a booted Debian. run.sh sets the variables."""
import os
import pathlib
import subprocess
import sys
import time
import unittest

from machine import Machine, wait

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
ROOT, DEB, DEBUG, PREVIOUS = (os.environ[name] for name in ("QS_ROOT", "QS_DEB", "QS_DEB_DEBUG", "QS_DEB_PREVIOUS"))
CONFIG = "/etc/queue-sidecar/queue-sidecar.cfg"
LOG = "/var/lib/queue-sidecar"
UNIT, SHOP = "queue-sidecar.service", "queue-sidecar@shop.service"
DOC = "usr/share/doc/queue-sidecar"


class Package(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(ROOT, [DEB, DEBUG, PREVIOUS])
        self.addCleanup(self.machine.stop)
        self.machine.boot()

    def apt(self, *arguments):
        # An unattended upgrade answers dpkg's question about a config in this way.
        return self.machine("apt-get", "-q", "-y", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", *arguments)

    def install(self, deb):
        return self.apt("install", "--allow-downgrades", f"/root/{pathlib.Path(deb).name}")

    def redis(self, *words):
        return self.machine("redis-cli", *words).strip()

    def expect(self, unit, enabled, active):
        self.assertEqual(self.machine.state(unit), (enabled, active), unit)

    def promote(self, queue, job):
        """A delayed job that is due reaches the workers."""
        self.redis("ZADD", f"{queue}:delayed", str(int(time.time() * 1000)), job)
        wait(f"{job} is in {queue}", lambda: self.redis("LPOS", queue, job) != "", self.machine.journal)

    def end(self, queue, job):
        """A worker has taken a job and reports that it cannot succeed."""
        self.redis("LPUSH", f"{queue}:backup", job)
        self.redis("HSET", f"{queue}:errors", job, "!no such mailbox")

    def failures(self, *command):
        return self.machine("runuser", "-u", "queue-sidecar", "--", "queue-sidecar", "audit", "list", "-o", "jsonl", *command)

    def start_both(self):
        """Configures and starts the service and an instance of a second config."""
        own = self.machine.path(CONFIG)
        own.write_text(own.read_text().replace("email-app", "of-my-own"))
        shop = self.machine.path("/etc/queue-sidecar/shop.cfg")
        shop.write_text('group = "shop"; http = { port = 8643; }; queues = ( { name = "order"; heartbeat = "off"; } );\n')
        self.machine("systemctl", "enable", "--now", UNIT, SHOP)
        self.promote("email", "first")
        self.promote("order", "second")

    def test_three_commands_from_the_package_to_a_promoted_job(self):
        said = self.machine("apt-get", "-y", "install", f"/root/{pathlib.Path(DEB).name}")
        self.assertEqual(self.machine.path(CONFIG).read_text(), (TOP / "conf/minimal.cfg").read_text(), said)
        self.expect(UNIT, "disabled", "inactive")
        self.machine("systemctl", "enable", "--now", "queue-sidecar")
        self.redis("ZADD", "email:delayed", str(int(time.time() * 1000)), "job")
        wait("the job is promoted", lambda: self.redis("LRANGE", "email", "0", "-1") == "job", self.machine.journal)
        self.expect(UNIT, "enabled", "active")
        pid = self.machine.show(UNIT, "MainPID")
        self.assertEqual(self.machine("stat", "-c", "%U", f"/proc/{pid}").strip(), "queue-sidecar")
        self.assertIn("all is well", self.machine("runuser", "-u", "queue-sidecar", "--", "queue-sidecar", "status"))
        self.assertIn("queue_sidecar_build_info", self.machine("perl", "-MIO::Socket::INET", "-e", """
            $s = IO::Socket::INET->new("127.0.0.1:8642") or die; print $s "GET /metrics HTTP/1.0\r\n\r\n"; print while <$s>"""))

    def test_installed_files_are_where_people_and_programs_look(self):
        self.install(DEB)
        self.apt("install", f"/root/{pathlib.Path(DEBUG).name}")
        self.expect(UNIT, "disabled", "inactive")
        self.assertEqual(self.machine("dpkg", "--verify", "queue-sidecar", "queue-sidecar-dbgsym"), "")
        self.assertEqual(self.machine("dpkg-query", "-W", "-f", "${Conffiles}", "queue-sidecar").split()[::2], [CONFIG])
        self.assertEqual(self.machine("getent", "passwd", "queue-sidecar").split(":")[5:], [LOG, "/usr/sbin/nologin\n"])
        for place in ("usr/share/man/man1/queue-sidecar.1.gz", "usr/share/man/man5/queue-sidecar.cfg.5.gz",
                      "usr/share/bash-completion/completions/queue-sidecar", "usr/share/zsh/vendor-completions/_queue-sidecar",
                      f"{DOC}/examples/queue-sidecar.cfg", f"{DOC}/copyright", f"{DOC}/changelog.Debian.gz"):
            self.assertTrue(self.machine.path(place).is_file(), place)
        links = subprocess.run([sys.executable, TOP / "tests/check/links.py", self.machine.path(DOC)], capture_output=True, text=True, check=False)
        self.assertEqual(links.stdout, "")
        self.assertNotIn("not found", self.machine("ldd", "/usr/bin/queue-sidecar"))
        notes = subprocess.run(["readelf", "-n", self.machine.path("usr/bin/queue-sidecar")], capture_output=True, text=True, check=True).stdout
        build_id = notes.split("Build ID: ")[1].split()[0]
        self.assertTrue(self.machine.path(f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug").is_file())
        # The libraries that the program loads by name are dependencies too.
        needs = self.machine("dpkg-query", "-W", "-f", "${Depends}", "queue-sidecar")
        for library in ("libgnutls", "libmicrohttpd", "libhiredis"):
            self.assertIn(library, needs)

    def test_an_upgrade_keeps_config_and_log_and_restarts_what_runs(self):
        self.install(PREVIOUS)
        self.start_both()
        self.end("email", "poison")
        wait("the failure is in the log", lambda: "poison" in self.failures(), self.machine.journal)
        before = [self.machine.show(unit, "MainPID") for unit in (UNIT, SHOP)]
        self.install(DEB)
        for unit, pid in zip((UNIT, SHOP), before):
            self.expect(unit, "enabled", "active")
            now = self.machine.show(unit, "MainPID")
            self.assertNotEqual(now, pid, unit)
            self.assertEqual(self.machine("readlink", f"/proc/{now}/exe").strip(), "/usr/bin/queue-sidecar")
        self.assertIn("of-my-own", self.machine.path(CONFIG).read_text())
        self.assertTrue(self.machine.path(CONFIG + ".dpkg-dist").exists(), "the previous package has another config")
        self.assertIn("poison", self.failures())
        self.promote("email", "third")
        self.promote("order", "fourth")

    def test_an_installation_starts_nothing(self):
        self.install(PREVIOUS)
        self.machine("systemctl", "enable", UNIT)
        self.install(DEB)
        self.expect(UNIT, "enabled", "inactive")
        self.apt("remove", "queue-sidecar")
        self.install(DEB)
        self.expect(UNIT, "enabled", "inactive")
        self.machine("systemctl", "disable", UNIT)
        self.apt("install", "--reinstall", f"/root/{pathlib.Path(DEB).name}")
        self.expect(UNIT, "disabled", "inactive")

    def test_remove_keeps_config_and_log_and_purge_keeps_the_log(self):
        self.install(DEB)
        self.start_both()
        self.end("email", "poison")
        wait("the failure is in the log", lambda: "poison" in self.failures(), self.machine.journal)
        self.apt("remove", "queue-sidecar")
        for unit in (UNIT, SHOP):
            self.assertEqual(self.machine("systemctl", "is-active", unit, code=None).stdout.strip(), "inactive")
            self.assertIn("released the lock", self.machine("journalctl", "--no-pager", "-u", unit))
        self.assertIn("of-my-own", self.machine.path(CONFIG).read_text())
        self.assertTrue(self.machine.path(f"{LOG}/audit.db").exists())
        self.install(DEB)
        self.assertIn("of-my-own", self.machine.path(CONFIG).read_text())
        self.assertIn("poison", self.failures())
        self.machine("systemctl", "start", UNIT)
        self.promote("email", "third")

        said = self.apt("purge", "queue-sidecar")
        self.assertIn(f"{LOG} stays", said)
        self.assertFalse(self.machine.path(CONFIG).exists())
        self.assertTrue(self.machine.path(f"{LOG}/audit.db").exists())
        self.assertEqual(self.machine("find", "/etc/systemd", "-name", "queue-sidecar*"), "")
        self.machine("rm", "-r", LOG, "/etc/queue-sidecar")
        self.install(DEB)
        self.machine("systemctl", "daemon-reload")
        said = self.apt("purge", "queue-sidecar")
        self.assertNotIn("stays", said)
        self.assertEqual(self.machine("find", "/etc", "/lib", "/usr", "/var/lib", "-name", "*queue-sidecar*"), "")


if __name__ == "__main__":
    unittest.main()
