"""Prints the provenance of the files in a directory: an in-toto statement (v1) with a SLSA predicate (provenance v1).

    provenance.py DIRECTORY VERSION COMMIT SOURCE [PACKAGES...]

SOURCE is the address of the repository, or empty. PACKAGES tell what the builds had installed: .buildinfo files, or the status of dpkg.
BUILDER, in the environment, is the URI of who builds, and PARTS is what was built. There is no time in it, so that the same commit gives the same bytes.
"""
import json
import os
import pathlib
import sys

import archive
import debian


def main():
    directory, version, commit, site, *packages = sys.argv[1:]
    directory = pathlib.Path(directory)
    used = {debian.purl(fields) for path in packages for fields in debian.installed(pathlib.Path(path))}
    source = {"name": "source", "digest": {"gitCommit": commit}}
    if site:
        source["uri"] = f"git+{site}"
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": archive.sha256(path)}} for path in sorted(directory.iterdir())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:queue-sidecar:make-release:1",
                "externalParameters": {"version": version, "commit": commit, "command": f'make release PARTS="{os.environ["PARTS"]}"'},
                "internalParameters": {"SOURCE_DATE_EPOCH": int(os.environ["SOURCE_DATE_EPOCH"])},
                "resolvedDependencies": [source, *({"uri": url} for url in sorted(used))],
            },
            "runDetails": {"builder": {"id": os.environ["BUILDER"]}},
        },
    }
    print(json.dumps(statement, indent=1))


if __name__ == "__main__":
    main()
