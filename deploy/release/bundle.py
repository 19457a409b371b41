"""Writes the bundle of each image of an OCI archive: program, libraries, dynamic loader, licences and samples in one tar.gz, for a Linux
without packages of its own. The bundle has the files of the image, so it needs no build of its own.

    bundle.py VERSION FILE-oci.tar DIRECTORY     writes DIRECTORY/queue-sidecar-VERSION-linux-ARCH.tar.gz, and prints its path
"""
import os
import pathlib
import re
import sys

import archive

START = b"""#!/bin/sh
# Starts queue-sidecar with the libraries and the dynamic loader of this directory.
place=$(dirname "$(readlink -f "$0")")/lib
for loader in "$place"/ld-linux*; do break; done
exec "$loader" --inhibit-cache --library-path "$place" --argv0 "$0" "$place/queue-sidecar" "$@"
"""
HELP = """queue-sidecar {version} with its libraries, for Linux on {arch}.

    ./queue-sidecar check -c conf/minimal.cfg
    ./queue-sidecar run -c conf/minimal.cfg

Keep the directory as it is, anywhere; a link to `queue-sidecar` may be in your PATH. It needs /bin/sh and readlink.

The libraries are those of Debian that lib/ has, and the package manager of your system does not know them: when one of them gets a
security update, install a newer bundle. licences/ has their licences, and the SBOM of the image lists them with versions.

Where /etc/ssl/certs/ca-certificates.crt does not exist, set redis.tls_ca_file, for example to lib/ca-certificates.crt of this
directory. Times are in UTC where /usr/share/zoneinfo does not exist.
"""


def entries(image, name, version):
    """The files of a bundle: {path: (mode, bytes)}."""
    for path, data in image.files.items():
        base = path.rsplit("/", 1)[-1]
        if path == "usr/bin/queue-sidecar" or re.match(r"usr/lib(64)?/", path):
            yield f"{name}/lib/{base}", (0o755, data)
        elif path == "etc/ssl/certs/ca-certificates.crt":
            yield f"{name}/lib/{base}", (0o644, data)
        elif match := re.fullmatch(r"usr/share/(?:doc/([^/]+)/copyright|common-licenses/(.+))", path):
            yield f"{name}/licences/{match[1] or match[2]}", (0o644, data)
    for sample in pathlib.Path("conf").glob("*.cfg"):
        yield f"{name}/conf/{sample.name}", (0o644, sample.read_bytes())
    yield f"{name}/queue-sidecar", (0o755, START)
    yield f"{name}/README", (0o644, HELP.format(version=version, arch=image.arch).encode())


def main():
    version, source, directory = sys.argv[1:]
    for image in archive.images(source)[1]:
        name = f"queue-sidecar-{version}-linux-{image.arch}"
        path = f"{directory}/{name}.tar.gz"
        archive.write(path, dict(entries(image, name, version)), int(os.environ["SOURCE_DATE_EPOCH"]))
        print(path)


if __name__ == "__main__":
    main()
