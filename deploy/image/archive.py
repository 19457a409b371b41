"""Writes an OCI archive with one index for the images of several architectures, whose bytes depend on their files and settings alone.

archive.py OUT NAME SECONDS ARCHITECTURE=DOCKER_ARCHIVE...    the time of all files and of the images is SECONDS since 1970

Tar entries are sorted, times are all one, and the history tells no host. `podman load`, `skopeo copy`, `docker load` (of Docker 25) and
`ctr images import` read it; each takes the image of its architecture.
"""
import datetime
import gzip
import hashlib
import io
import json
import sys
import tarfile

OCI = "application/vnd.oci.image."


class Archive:
    """The blobs of the archive, by their names."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.blobs = {}

    def add(self, kind, data, **more):
        """Returns the descriptor of a blob; `data` is bytes, or what becomes JSON."""
        if not isinstance(data, bytes):
            data = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": OCI + kind, "digest": f"sha256:{digest}", "size": len(data), **more}

    def image(self, architecture, path):
        """Adds an image that `podman save --format docker-archive` wrote. Returns the descriptor of its manifest."""
        with tarfile.open(path) as saved:
            (manifest,) = json.load(saved.extractfile("manifest.json"))
            config = json.load(saved.extractfile(manifest["Config"]))
            layer = self.layer([saved.extractfile(name) for name in manifest["Layers"]])
        when = datetime.datetime.fromtimestamp(self.seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        # Healthcheck is no field of OCI, which allows others; docker reads it.
        keep = ("Cmd", "Entrypoint", "Env", "Healthcheck", "Labels", "StopSignal", "User", "Volumes")
        about = self.add("config.v1+json", {
            "architecture": architecture, "os": "linux", "created": when,
            "config": {key: config["config"][key] for key in keep if config["config"].get(key)},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
            "history": [{"created": when, "created_by": "deploy/image/Dockerfile"}]})
        packed = self.add("layer.v1.tar+gzip", gzip.compress(layer, 9, mtime=0))
        return self.add("manifest.v1+json", {"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": about, "layers": [packed]},
                        platform={"architecture": architecture, "os": "linux"})

    def layer(self, files):
        """Returns the layers as one tar. A hard link becomes a file."""
        entries = {}
        for file in files:
            with tarfile.open(fileobj=file) as tar:
                for member in tar:
                    assert not member.name.split("/")[-1].startswith(".wh."), f"{member.name} removes a file of another layer"
                    data = tar.extractfile(member).read() if member.isreg() or member.islnk() else None
                    if data is not None:
                        member.type, member.linkname, member.size = tarfile.REGTYPE, "", len(data)
                    entries[member.name.rstrip("/")] = (member, data)
        return self.tar(entries[name] for name in sorted(entries))

    def tar(self, entries):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for member, data in entries:
                member.mtime, member.uname, member.gname, member.pax_headers = self.seconds, "", "", {}
                tar.addfile(member, None if data is None else io.BytesIO(data))
        return out.getvalue()

    def write(self, out, name, manifests):
        """Writes the archive: its index.json has one entry, the index of all images."""
        kind = "index.v1+json"
        index = self.add(kind, {"schemaVersion": 2, "mediaType": OCI + kind, "manifests": manifests}, annotations={
            "io.containerd.image.name": name, "org.opencontainers.image.ref.name": name})
        files = {"index.json": json.dumps({"schemaVersion": 2, "manifests": [index]}, sort_keys=True).encode(),
                 "oci-layout": b'{"imageLayoutVersion":"1.0.0"}', **self.blobs}
        entries = []
        for path, data in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            entries.append((member, data))
        with open(out, "wb") as file:
            file.write(self.tar(entries))
        print(index["digest"])


def main():
    out, name, seconds, *images = sys.argv[1:]
    archive = Archive(int(seconds))
    archive.write(out, name, [archive.image(*image.split("=", 1)) for image in sorted(images)])


if __name__ == "__main__":
    main()
