"""Writes tar.gz files whose bytes depend on their contents alone, and reads the images of an OCI archive."""
import dataclasses
import gzip
import hashlib
import io
import json
import posixpath
import tarfile


def write(path, entries, epoch):
    """Writes `entries`, {name: (mode, bytes)}, as files of user 0 and of the time `epoch`."""
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for name, (mode, data) in sorted(entries.items()):
                member = tarfile.TarInfo(name)
                member.mode, member.mtime, member.size = mode, epoch, len(data)
                tar.addfile(member, io.BytesIO(data))


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclasses.dataclass
class Image:
    """One image of an archive: `files` are {path without a leading slash: bytes} of its regular files."""

    arch: str
    digest: str
    files: dict


def images(path):
    """Returns the digest of the archive's index, and its images by architecture."""
    with tarfile.open(path) as tar:
        def blob(digest):
            return tar.extractfile(f"blobs/{digest.replace(':', '/')}").read()

        top = json.load(tar.extractfile("index.json"))["manifests"]
        found = []
        wanted = list(top)
        while wanted:
            entry = wanted.pop(0)
            manifest = json.loads(blob(entry["digest"]))
            if "manifests" in manifest:
                wanted += manifest["manifests"]
            else:
                arch = json.loads(blob(manifest["config"]["digest"]))["architecture"]
                found.append(Image(arch, entry["digest"], _files(blob(layer["digest"]) for layer in manifest["layers"])))
    return top[0]["digest"], sorted(found, key=lambda image: image.arch)


def _files(layers):
    files = {}
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            for member in tar:
                name = posixpath.normpath(member.name).lstrip("/")
                folder, base = posixpath.split(name)
                if base.startswith(".wh."):
                    files.pop(posixpath.join(folder, base[len(".wh."):]), None)
                elif member.islnk():
                    files[name] = files[posixpath.normpath(member.linkname).lstrip("/")]
                elif member.isfile():
                    files[name] = tar.extractfile(member).read()
    return files
