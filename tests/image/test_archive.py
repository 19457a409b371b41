"""The OCI archive of both architectures."""
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

from engine import IMAGE, TOP, UID, EngineTest, podman, run

ARCHIVE = pathlib.Path(os.environ["QS_ARCHIVE"])
MACHINES = {"amd64": 62, "arm64": 183}  # e_machine of ELF
LOADERS = {"amd64": "usr/lib64/ld-linux-x86-64.so.2", "arm64": "usr/lib/ld-linux-aarch64.so.1"}


class Index:
    """The images of an archive, by architecture."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.members = tar.getmembers()
            self.blobs = {member.name: tar.extractfile(member).read() for member in self.members if member.isreg()}
        (self.top,) = json.loads(self.blobs["index.json"])["manifests"]
        self.manifests = {entry["platform"]["architecture"]: self.json(entry) for entry in self.json(self.top)["manifests"]}

    def blob(self, entry):
        data = self.blobs["blobs/" + entry["digest"].replace(":", "/")]
        assert (len(data), "sha256:" + hashlib.sha256(data).hexdigest()) == (entry["size"], entry["digest"]), entry
        return data

    def json(self, entry):
        return json.loads(self.blob(entry))

    def layer(self, architecture):
        (layer,) = self.manifests[architecture]["layers"]
        return tarfile.open(fileobj=io.BytesIO(self.blob(layer)))


class Archive(EngineTest):
    def write(self, out, seconds, *images):
        """Returns the digest that archive.py prints."""
        return run(sys.executable, TOP / "deploy/image/archive.py", self.directory / out, "localhost/test:1", seconds,
                   *(f"{arch}={path}" for arch, path in images)).strip()

    def saved(self, name, seed):
        """Writes what podman could have saved: the same files in an order and with times of their own."""
        files = {"usr/": None, "usr/bin/": None, "usr/bin/program": b"program", "etc/": None, "etc/passwd": b"root", "etc/link": "passwd"}
        parents = [path for path, content in files.items() if content is None]
        others = [path for path, content in files.items() if content is not None]
        others.sort(reverse=seed % 2 == 1)
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT if seed % 2 else tarfile.GNU_FORMAT) as tar:
            for path in parents + others:
                member = tarfile.TarInfo(path)
                member.mtime, member.uname = seed + 0.5, f"user-{seed}"
                if files[path] is None:
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                elif isinstance(files[path], str):
                    member.type, member.linkname = tarfile.SYMTYPE, files[path]
                else:
                    member.size = len(files[path])
                tar.addfile(member, io.BytesIO(files[path]) if isinstance(files[path], bytes) else None)
        config = {"created": f"2026-01-{seed:02}T00:00:00Z", "history": [{"created_by": f"/builder-{seed}"}], "config": {"User": "1:1"}}
        path = self.directory / name
        with tarfile.open(path, "w") as tar:
            for inside, data in (("layer.tar", layer.getvalue()), ("config.json", json.dumps(config).encode()),
                                 ("manifest.json", json.dumps([{"Config": "config.json", "Layers": ["layer.tar"]}]).encode())):
                member = tarfile.TarInfo(inside)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return path

    def test_bytes_depend_on_files_and_settings_alone(self):
        one, other = self.saved("one.tar", 1), self.saved("other.tar", 2)
        first = self.write("first", 1700000000, ("amd64", one), ("arm64", other))
        self.assertEqual(first, self.write("second", 1700000000, ("arm64", one), ("amd64", other)))
        self.assertEqual((self.directory / "first").read_bytes(), (self.directory / "second").read_bytes())
        self.assertNotIn("builder", (self.directory / "first").read_text("latin-1"))
        self.assertNotEqual(first, self.write("third", 1700000001, ("amd64", one), ("arm64", other)))

    def test_has_one_image_for_each_architecture(self):
        index = Index(ARCHIVE)
        self.assertEqual(set(index.manifests), set(MACHINES))
        for architecture, machine in MACHINES.items():
            about = index.json(index.manifests[architecture]["config"])
            self.assertEqual((about["architecture"], about["os"]), (architecture, "linux"))
            names = set()
            with index.layer(architecture) as tar:
                for member in tar:
                    names.add(member.name)
                    data = tar.extractfile(member).read(20) if member.isreg() else b""
                    if data.startswith(b"\x7fELF"):
                        self.assertEqual(data[18], machine, f"{architecture}: {member.name}")
                    own = member.name == "var/lib/queue-sidecar"
                    self.assertEqual((member.uid, member.gid, member.uname), (UID, UID, "") if own else (0, 0, ""), member.name)
            # The libraries that the program loads by name, and the loader.
            named = {name for path in (TOP / "sidecar").rglob("*.[ch]") for name in re.findall(r'"(lib[\w+-]+\.so\.[\d.]+)"', path.read_text())}
            self.assertGreater(len(named), 1)
            self.assertLessEqual(named | {"libc.so.6", "libsqlite3.so.0"}, {name.rsplit("/", 1)[-1] for name in names})
            self.assertLessEqual({"usr/bin/queue-sidecar", LOADERS[architecture]}, names)

    def test_both_images_have_the_same_files(self):
        index = Index(ARCHIVE)

        def files(architecture):
            with index.layer(architecture) as tar:
                return {re.sub(r"aarch64|x86[-_]64|lib64", "ARCH", member.name) for member in tar if ".so" not in member.name}

        self.assertEqual(files("amd64"), files("arm64"))

    def test_runs_as_the_dockerfile_says(self):
        index = Index(ARCHIVE)
        built = json.loads(podman("image", "inspect", IMAGE))[0]
        for manifest in index.manifests.values():
            config = index.json(manifest["config"])["config"]
            for key, value in config.items():
                if key != "Healthcheck":
                    self.assertEqual(value, built["Config"][key], key)
            self.assertLessEqual({"Cmd", "Entrypoint", "Healthcheck", "Labels", "StopSignal", "User", "Volumes"}, set(config))
            self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "/usr/bin/queue-sidecar", "healthcheck"])

    def test_tells_nothing_of_the_machine(self):
        index = Index(ARCHIVE)
        times = {member.mtime for member in index.members}
        self.assertEqual(len(times), 1)
        for manifest in index.manifests.values():
            about = index.json(manifest["config"])
            self.assertEqual([line["created_by"] for line in about["history"]], ["deploy/image/Dockerfile"])
            with tarfile.open(fileobj=io.BytesIO(index.blob(manifest["layers"][0]))) as tar:
                self.assertEqual({member.mtime for member in tar}, times)

    def test_other_tools_read_it(self):
        raw = run("skopeo", "inspect", "--raw", f"oci-archive:{ARCHIVE}")
        self.assertEqual(hashlib.sha256(raw.encode()).hexdigest(), Index(ARCHIVE).top["digest"].split(":")[1])
        for architecture in MACHINES:
            run("skopeo", "copy", "--override-arch", architecture, "--quiet", f"oci-archive:{ARCHIVE}", f"dir:{self.directory}/{architecture}")
        run("skopeo", "copy", "--all", "--quiet", f"oci-archive:{ARCHIVE}", f"dir:{self.directory}/all")

    def test_podman_loads_that_of_this_machine(self):
        own = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
        built = podman("image", "inspect", "--format", "{{.Id}}", IMAGE).strip()
        self.addCleanup(podman, "tag", built, IMAGE)
        self.assertIn(IMAGE, podman("load", "--quiet", "--input", ARCHIVE))
        self.assertEqual(podman("image", "inspect", "--format", "{{.Architecture}}", IMAGE).strip(), own)
        version = podman("image", "inspect", "--format", '{{index .Labels "org.opencontainers.image.version"}}', IMAGE).strip()
        self.assertEqual(podman("run", "--rm", "--network=none", "--read-only", IMAGE, "version").split()[1], version)
