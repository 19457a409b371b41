"""The image of another architecture, taken from the OCI archive, under qemu: run.sh starts this within tests/support/emulate.sh."""
import json
import os
import pathlib
import time

import test_files
from engine import HARDENED, UID, EngineTest, Redis, podman, wait
from test_container import CONFIG, TAKE_AND_FAIL

# qemu translates the program, which needs memory.
ROOM = [*HARDENED, "--memory=256m"]
ARCHIVE = pathlib.Path(os.environ["QS_ARCHIVE"])
ARCHITECTURE = os.environ["QS_ARCHITECTURE"]


class Files(test_files.Files):
    """The same as of the other image."""

    def test_is_small(self):
        self.assertLess(self.about["Size"], 17_000_000)


class Emulated(EngineTest):
    def setUp(self):
        super().setUp()
        for name in ("redis", "config", "audit"):
            (self.directory / name).mkdir()
        os.chown(self.directory / "audit", UID, UID)
        (self.directory / "config/queue-sidecar.cfg").write_text(CONFIG)

    def once(self, *words, code=0):
        return podman("run", "--rm", "--network=none", *ROOM, "--volume", f"{self.directory}/config:/etc/queue-sidecar:ro", self.image, *words, code=code)

    @classmethod
    def setUpClass(cls):
        # The archive has one name for the images of all architectures: give it back to that of this machine.
        named = os.environ["QS_NAME"]
        cls.addClassCleanup(podman, "tag", podman("image", "inspect", "--format", "{{.Id}}", named).strip(), named)
        cls.image = podman("pull", "--quiet", "--arch", ARCHITECTURE, f"oci-archive:{ARCHIVE}").strip()

    def test_is_of_the_architecture(self):
        about = json.loads(podman("image", "inspect", self.image))[0]
        self.assertEqual(about["Architecture"], ARCHITECTURE)
        self.assertEqual(about["Labels"]["org.opencontainers.image.version"], self.once("version").split()[1])

    def test_checks_a_config(self):
        self.once("check")
        (self.directory / "config/queue-sidecar.cfg").write_text(CONFIG.replace("ttl", "tl"))
        self.assertIn("tl", self.once("check", code=None).stderr)

    def test_finds_the_libraries_that_it_loads_by_name(self):
        (self.directory / "config/queue-sidecar.cfg").write_text(
            CONFIG.replace('socket = "/run/redis/redis.sock"', 'host = "127.0.0.1"; port = 1; tls = true'))
        done = self.once("check", "--redis", code=None)
        said = done.stdout + done.stderr
        self.assertIn("refused", said.lower())
        self.assertNotIn("needs the library", said)

    def test_serves_jobs(self):
        redis = Redis(self.directory / "redis")
        self.addCleanup(redis.stop)
        redis.start()
        sidecar = self.container(
            "qs-emulated", "--network=none", *ROOM, "--volume", f"{self.directory}/redis:/run/redis:ro",
            "--volume", f"{self.directory}/config:/etc/queue-sidecar:ro", "--volume", f"{self.directory}/audit:/var/lib/queue-sidecar",
            image=self.image)
        sidecar.wait_ready()  # by /readyz, so the library of the HTTP server is there too
        redis("ZADD", "email:delayed", int(time.time() * 1000) + 300, "later")
        wait("the delayed job falls due", lambda: redis("LRANGE", "email", "0", "-1") == "later", sidecar.log)
        self.assertEqual(redis("EVAL", TAKE_AND_FAIL, "0", "later", "!550 no such mailbox"), "1")
        wait("the failure is in the audit log", lambda: "later" in sidecar.failures(), sidecar.log)
        self.assertEqual(sidecar.stop()[0], 0)
