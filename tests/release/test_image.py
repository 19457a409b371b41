"""What is made of the image: SBOM and bundle. Small archives show what the scripts refuse; the real image shows the rest."""
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import unittest
import urllib.request

from release import FILES, PARTS, TOP, VALIDATOR, VERSION, run

ARCHIVE = FILES / f"queue-sidecar-{VERSION}-oci.tar"
STATUS = "var/lib/dpkg/status.d/"
LIBC = """Package: libc6
Status: install ok installed
Maintainer: GNU Libc Maintainers <x@example.org>
Architecture: amd64
Source: glibc
Version: 2.41-12+b1
"""
ROOT = {"etc/os-release": 'ID=debian\nVERSION_ID="13"\n', "usr/bin/queue-sidecar": "program", "usr/lib/x/libc.so.6": "library",
        "usr/lib64/ld-linux.so.2": "loader", "etc/ssl/certs/ca-certificates.crt": "authorities",
        "usr/share/doc/libc6/copyright": "licence", "usr/share/common-licenses/GPL-3": "licence",
        STATUS + "libc6": LIBC,
        STATUS + "libc6.md5sums": "00  lib/x/libc.so.6\n00  usr/lib64/ld-linux.so.2\n00  usr/share/doc/libc6/copyright\n"}
real = unittest.skipUnless("image" in PARTS, "PARTS has no image")


def small_archive(path, files, archs=("amd64", "arm64")):
    """Writes an OCI archive whose images have `files`."""
    blobs = {}

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def tar_of(entries):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for name, data in entries.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return out.getvalue()

    layer = blob(tar_of({name: text.encode() for name, text in files.items()}))
    manifests = [blob(json.dumps({"config": blob(json.dumps({"architecture": arch}).encode()), "layers": [layer]}).encode()) for arch in archs]
    index = blob(json.dumps({"manifests": manifests}).encode())
    path.write_bytes(tar_of({"index.json": json.dumps({"manifests": [index]}).encode(), **blobs}))


def script(name, *words, code=0):
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "BUILDER": "urn:test"}
    return run("python3", TOP / "deploy/release" / name, *words, code=code, cwd=TOP, env=env)


def free_ports():
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def stop(process):
    process.kill()
    process.wait()


def wait(condition, log=str):
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"waited 60 s\n{log()}")
        time.sleep(0.05)


class Case(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.place)

    def validate(self, text):
        """Holds a document against SPDX 2.3 by spdx-tools."""
        if not os.access(VALIDATOR, os.X_OK):
            self.skipTest("spdx-tools is not there")
        path = self.place / "document.spdx.json"
        path.write_text(text)
        run(VALIDATOR, "-i", path, "--version", "SPDX-2.3")


class SmallSbom(Case):
    def sbom(self, change=None, code=0):
        path = self.place / "small-oci.tar"
        small_archive(path, {name: text for name, text in {**ROOT, **(change or {})}.items() if text is not None})
        return script("sbom.py", "1.2.3", path, code=code)

    def test_is_spdx(self):
        self.validate(self.sbom())

    def test_the_validator_notices_a_fault(self):
        with self.assertRaisesRegex(AssertionError, "exit code 1"):
            self.validate(self.sbom().replace('"licenseDeclared": "MIT"', '"licenseDeclared": "NONSENSE-1"'))

    def test_tells_version_licence_url_supplier_and_digest(self):
        document = json.loads(self.sbom())
        packages = {package["SPDXID"]: package for package in document["packages"]}
        declared = {name: packages[f"SPDXRef-{name}"]["licenseDeclared"] for name in ("file", "arm64", "arm64-program")}
        self.assertEqual(declared, {"file": "NOASSERTION", "arm64": "NOASSERTION", "arm64-program": "MIT"}, "an image has libraries of others")
        libc = packages["SPDXRef-arm64-libc6"]
        self.assertEqual((libc["versionInfo"], libc["licenseDeclared"], libc["supplier"], libc["originator"], libc["sourceInfo"]),
                         ("2.41-12+b1", "LGPL-2.1-or-later", "Organization: Debian", "Organization: GNU Libc Maintainers",
                          "built from the Debian source package glibc 2.41-12"))
        self.assertEqual(libc["externalRefs"][0]["referenceLocator"], "pkg:deb/debian/libc6@2.41-12%2Bb1?arch=amd64&distro=debian-13")
        inside = {link["relatedSpdxElement"] for link in document["relationships"] if link["spdxElementId"] == libc["SPDXID"]}
        digests = {file["fileName"]: file["checksums"][1]["checksumValue"] for file in document["files"] if file["SPDXID"] in inside}
        self.assertEqual(digests, {"./usr/lib/x/libc.so.6": hashlib.sha256(b"library").hexdigest(),
                                   "./usr/lib64/ld-linux.so.2": hashlib.sha256(b"loader").hexdigest()})
        self.assertIn({"spdxElementId": "SPDXRef-arm64-program", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": libc["SPDXID"]},
                      document["relationships"])

    def test_a_library_of_no_package_is_refused(self):
        self.assertIn("no package in var/lib/dpkg/status.d/ has usr/lib/x/libnew.so.1", self.sbom({"usr/lib/x/libnew.so.1": "x"}, code=1))

    def test_a_package_without_a_known_licence_is_refused(self):
        change = {STATUS + "libnew1": LIBC.replace("libc6", "libnew1"), STATUS + "libnew1.md5sums": ""}
        self.assertIn("no licence is known for the package libnew1", self.sbom(change, code=1))


class Bundle(Case):
    def test_has_the_files_of_the_image_and_a_starter(self):
        small_archive(self.place / "small-oci.tar", ROOT)
        script("bundle.py", "1.2.3", self.place / "small-oci.tar", self.place)
        with tarfile.open(self.place / "queue-sidecar-1.2.3-linux-arm64.tar.gz") as tar:
            found = {member.name.split("/", 1)[1]: member.mode for member in tar}
        programs = {"queue-sidecar", "lib/queue-sidecar", "lib/libc.so.6", "lib/ld-linux.so.2"}
        texts = {"README", "lib/ca-certificates.crt", "licences/libc6", "licences/GPL-3", "conf/minimal.cfg"}
        self.assertLessEqual({*((name, 0o755) for name in programs), *((name, 0o644) for name in texts)}, set(found.items()))


@real
class RealSbom(Case):
    def setUp(self):
        super().setUp()
        self.text = (FILES / f"{ARCHIVE.name}.spdx.json").read_text()
        self.document = json.loads(self.text)

    def test_is_spdx(self):
        self.validate(self.text)

    def test_has_each_library_that_the_program_loads(self):
        sources = "".join(path.read_text() for path in (TOP / "sidecar").rglob("*.[ch]"))
        named = set(re.findall(r'"(lib[\w+-]+\.so\.[\d.]+)"', sources))
        files = {file["fileName"].rsplit("/", 1)[-1] for file in self.document["files"]}
        self.assertLessEqual(named | {"queue-sidecar", "libc.so.6", "libsqlite3.so.0"}, files)
        names = {package["name"] for package in self.document["packages"]}
        self.assertLessEqual({f"queue-sidecar image, linux/{arch}" for arch in ("amd64", "arm64")}, names)

    def test_the_command_of_security_md_lists_them(self):
        (command,) = re.findall(r"(?ms)^    (python3 -c .*?spdx.json)$", (TOP / "SECURITY.md").read_text())
        self.assertRegex(run("sh", "-c", command.replace("\n    ", "\n"), cwd=FILES), r"(?m)^libsqlite3-0 3\.\S+ blessing$")


@real
@unittest.skipUnless(os.geteuid() == 0 and shutil.which("podman"), "it needs root and podman")
class RealImage(Case):
    """The commands of the README with the file of the release alone: podman has no image yet, and the network is new."""

    # Arguments: directory of podman, of the release, the three commands.
    SCRIPT = """
        ip link set lo up
        . deploy/image/engine.sh
        image_dir=$1
        engine_start podman runc ip
        cd "$1"
        redis-server --save "" >redis.log &
        trap 'podman rm --all --force --volumes --time 0 >/dev/null; kill $!; umount -q storage-*/overlay || true' EXIT
        cp "$2"/*-oci.tar .
        for command in "$3" "$4" "$5"; do
            said=$(eval "$command")
            IMAGE=${said#Loaded image: }
        done
        timeout 60 sh -c 'until [ "$(redis-cli LRANGE email 0 -1)" = job ]; do sleep 0.1; done' || {
            podman logs --latest
            exit 1
        }
    """

    def test_three_commands_from_the_file_to_a_promoted_job(self):
        load, start = re.search(r"`(podman load [^`]*)`, `(podman run [^`]*) IMAGE`", (TOP / "README.md").read_text()).groups()
        (self.place / "config").mkdir()
        shutil.copy(TOP / "conf/minimal.cfg", self.place / "config/queue-sidecar.cfg")
        commands = load, f"{start} -d --network host $IMAGE", "redis-cli ZADD email:delayed 1 job"
        run("unshare", "--net", "--mount", "--propagation", "private", "sh", "-euc", self.SCRIPT, "-", self.place, FILES, *commands, cwd=TOP)


@real
@unittest.skipUnless(os.geteuid() == 0 and shutil.which("redis-server") and shutil.which("busybox"), "it needs root, redis-server and busybox")
class RealBundle(Case):
    """The bundle of this machine's architecture, in roots without its libraries."""

    def setUp(self):
        super().setUp()
        arch = run("dpkg", "--print-architecture").strip()
        with tarfile.open(FILES / f"queue-sidecar-{VERSION}-linux-{arch}.tar.gz") as tar:
            tar.extractall(self.place / "opt")
        (self.tree,) = (self.place / "opt").glob("queue-sidecar-*")

    def test_works_in_a_root_with_a_busybox_alone(self):
        root = self.place / "root"
        (root / "bin").mkdir(parents=True)
        for name in ("etc", "tmp"):
            (root / name).mkdir()
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        for name in ("sh", "readlink", "dirname"):
            (root / "bin" / name).symlink_to("busybox")
        shutil.move(self.tree, root / "opt")
        (root / "bin/queue-sidecar").symlink_to("/opt/queue-sidecar")
        self.work(["chroot", root, "/bin/queue-sidecar"], root, "")

    def test_works_on_this_machine(self):
        self.work([self.tree / "queue-sidecar"], self.place, str(self.place))

    def test_works_in_debian_13(self):
        root = pathlib.Path(os.environ["QS_DEBIAN13_DIR"]) / "root"
        if not root.exists():
            self.skipTest("there is no Debian 13 root")
        place = pathlib.Path(tempfile.mkdtemp(dir=root / "tmp"))
        self.addCleanup(shutil.rmtree, place)
        shutil.move(self.tree, place / "tree")
        (place / "tmp").mkdir()
        inside = "/" + str(place.relative_to(root))
        self.work(["chroot", root, f"{inside}/tree/queue-sidecar"], place, inside, "127.0.0.1")  # it has no /etc/hosts

    def work(self, command, place, inside, host="localhost"):
        """A due job is promoted, the probe answers, and TLS is there. `place` is the directory that the program calls `inside`."""
        self.assertIn(VERSION, run(*command, "version"))
        port, http = free_ports()
        server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""], cwd=self.place, stdout=subprocess.DEVNULL)
        self.addCleanup(stop, server)
        (place / "tmp").mkdir(exist_ok=True)
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", place / "tmp/ca.crt")
        for name, tls in (("plain", ""), ("tls", f'tls = true; tls_ca_file = "{inside}/tmp/ca.crt";')):
            (place / f"tmp/{name}.cfg").write_text(
                f'group = "g"; redis = {{ host = "{host}"; port = {port}; {tls} }};\n'
                f'audit = {{ path = "{inside}/tmp/audit.db"; }}; http = {{ port = {http}; }}; queues = ( {{ name = "q"; }} );\n')
        wait(lambda: "PONG" in subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, text=True, check=False).stdout)
        run("redis-cli", "-p", port, "ZADD", "q:delayed", 1, "job")
        log = self.place / "log"
        with log.open("w") as file:
            sidecar = subprocess.Popen([*map(str, command), "run", "-c", f"{inside}/tmp/plain.cfg"], stderr=file)
        self.addCleanup(stop, sidecar)
        wait(lambda: sidecar.poll() is not None or "1" in run("redis-cli", "-p", port, "LLEN", "q"), log.read_text)
        self.assertIsNone(sidecar.poll(), log.read_text())
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/healthz", timeout=10) as answer:
            self.assertEqual(answer.status, 200)
        sidecar.terminate()
        self.assertEqual(sidecar.wait(30), 0)
        said = run(*command, "check", "-c", f"{inside}/tmp/tls.cfg", "--redis", code=69)
        self.assertIn("TLS", said)
        self.assertNotIn("needs the library", said)
