"""The files and the metadata of the image."""
import hashlib
import json
import os
import pathlib
import re
import stat
import subprocess
import unittest

from engine import HARDENED, IMAGE, TOP, UID, podman, run

MAX_BYTES = 17_000_000


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(podman("image", "mount", IMAGE).strip())
        cls.addClassCleanup(podman, "image", "unmount", IMAGE)
        cls.files = [path for path in cls.root.rglob("*") if not path.is_symlink()]
        cls.about = json.loads(podman("image", "inspect", IMAGE))[0]

    def inside(self, path):
        return "/" + str(path.relative_to(self.root))

    def test_is_small(self):
        self.assertLessEqual(self.about["Size"], MAX_BYTES)
        self.assertLessEqual(sum(path.stat().st_size for path in self.files if path.is_file()), MAX_BYTES)
        for path, words in (("README.md", r"\[the image\]\(deploy/image/README.md\), (\d+) MB"), ("deploy/image/README.md", r"^It is (\d+) MB")):
            (told,) = re.findall(words, (TOP / path).read_text(), re.M)
            self.assertAlmostEqual(int(told), self.about["Size"] / 1e6, delta=1.5, msg=path)

    def test_has_one_program(self):
        """An intruder finds no shell and no tool: only the program and the loader can run."""
        programs = set()
        for path in self.files:
            if path.is_file() and path.stat().st_mode & 0o111:
                kind = run("readelf", "--file-header", "--program-headers", path, code=None).stdout
                if "INTERP" in kind or "shared object" not in kind.lower() and "DYN" not in kind:
                    programs.add(self.inside(path))
        self.assertIn("/usr/bin/queue-sidecar", programs)
        self.assertLessEqual({path for path in programs if ".so" not in path}, {"/usr/bin/queue-sidecar"})
        self.assertEqual([path.name for path in (self.root / "usr/bin").iterdir()], ["queue-sidecar"])

    def test_belongs_to_root(self):
        """Only /var/lib/queue-sidecar belongs to the user. No file is setuid or has capabilities, or can be changed by others."""
        for path in self.files:
            info = path.stat()
            with self.subTest(path=self.inside(path)):
                own = self.inside(path) == "/var/lib/queue-sidecar"
                self.assertEqual((info.st_uid, info.st_gid), (UID, UID) if own else (0, 0))
                self.assertEqual(stat.S_IMODE(info.st_mode) & 0o7022, 0)
                self.assertNotIn("security.capability", os.listxattr(path))
        self.assertEqual(stat.S_IMODE((self.root / "var/lib/queue-sidecar").stat().st_mode), 0o750)
        self.assertEqual(list((self.root / "var/lib/queue-sidecar").iterdir()), [])

    def test_tells_what_it_is(self):
        labels = self.about["Config"]["Labels"]
        version = podman("run", "--rm", "--network=none", *HARDENED, IMAGE, "version").split()[1]
        prefix = "org.opencontainers.image."
        self.assertEqual(labels[prefix + "version"], version)
        self.assertEqual(labels[prefix + "title"], "queue-sidecar")
        self.assertNotIn(prefix + "licenses", labels, "the libraries have others: the SBOM lists them")
        self.assertGreater(len(labels[prefix + "description"]), 20)
        self.assertIn(prefix + "source", labels)
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
        self.assertEqual(labels[prefix + "revision"].removesuffix("-dirty"), head)

    def test_says_how_it_runs(self):
        config = self.about["Config"]
        self.assertEqual(config["User"], f"{UID}:{UID}")
        self.assertEqual(config["Entrypoint"], ["/usr/bin/queue-sidecar"])
        self.assertEqual(config["Cmd"], ["run"])
        self.assertEqual(config["StopSignal"], "SIGTERM")
        self.assertEqual(config["Volumes"], {"/var/lib/queue-sidecar": {}})
        self.assertEqual(self.about["HealthCheck" if "HealthCheck" in self.about else "Healthcheck"]["Test"],
                         ["CMD", "/usr/bin/queue-sidecar", "healthcheck"])

    def test_knows_who_it_is(self):
        self.assertIn(f"queue-sidecar:x:{UID}:{UID}:", (self.root / "etc/passwd").read_text())
        self.assertIn(f"queue-sidecar:x:{UID}:", (self.root / "etc/group").read_text())
        self.assertIn("BEGIN CERTIFICATE", (self.root / "etc/ssl/certs/ca-certificates.crt").read_text())
        self.assertTrue((self.root / "usr/share/zoneinfo/Europe/Berlin").exists())

    def test_can_be_scanned(self):
        """Scanners find the release and the packages, and each package has its licence."""
        self.assertIn('VERSION_ID="13"', (self.root / "etc/os-release").read_text())
        status = [path for path in (self.root / "var/lib/dpkg/status.d").iterdir() if path.suffix != ".md5sums"]
        packages = {path.name: path.read_text() for path in status}
        for library in ("libc6", "libhiredis1.1.0", "libsqlite3-0", "libmicrohttpd12t64", "libgnutls30t64"):
            self.assertIn(f"Package: {library}\n", packages[library])
        for name, status in packages.items():
            with self.subTest(package=name):
                self.assertRegex(status, r"(?m)^Version: \S")
                self.assertTrue((self.root / "usr/share/doc" / name / "copyright").exists())
        self.assertLessEqual({"GPL-3", "LGPL-2.1", "LGPL-3"}, {path.name for path in (self.root / "usr/share/common-licenses").iterdir()})

    def test_each_library_has_its_package(self):
        """The list of a package has each library, with its sum."""
        sums = {}
        for path in (self.root / "var/lib/dpkg/status.d").glob("*.md5sums"):
            for digest, name in (line.split(maxsplit=1) for line in path.read_text().splitlines()):
                sums[(self.root / name).resolve()] = digest
        libraries = [path for path in self.files if path.is_file() and self.inside(path).startswith("/usr/lib")]
        self.assertGreater(len(libraries), 10)
        for path in libraries:
            self.assertEqual(sums.get(path), hashlib.md5(path.read_bytes()).hexdigest(), self.inside(path))
