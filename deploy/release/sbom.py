"""Writes the SBOM of a file of a release: SPDX 2.3 as JSON.

    sbom.py VERSION FILE-oci.tar >FILE.spdx.json                the images of an OCI archive, and the Debian packages in them
    sbom.py VERSION FILE.deb FILE.buildinfo >FILE.spdx.json     a Debian package, and the packages that it depends on

SOURCE_DATE_EPOCH is the time of its creation. The same file gives the same bytes.
"""
import datetime
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import urllib.parse

import archive
import debian

PUBLIC_DOMAIN = {"licenseId": "LicenseRef-public-domain", "name": "public domain",
                 "extractedText": "The time zone database is in the public domain: https://data.iana.org/time-zones/code/LICENSE"}
SUPPLIER = {"supplier": "Organization: queue-sidecar"}
OURS = {**SUPPLIER, "licenseDeclared": "MIT"}
# An image has more licences than ours: its packages tell them.
IMAGE = {**SUPPLIER, "primaryPackagePurpose": "CONTAINER"}


class Document:
    """An SPDX document about one file of the release."""

    def __init__(self, version, path):
        self.version, self.path, self.digest = version, path, archive.sha256(path)
        self.packages, self.files, self.relationships = {}, [], []

    def package(self, key, name, version, **fields):
        """Adds a package; returns its id. `files` are {path: bytes}; its other fields are those of SPDX."""
        ident = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", key)
        files = fields.pop("files", {})
        urls = fields.pop("purl", None)
        package = {"SPDXID": ident, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION",
                   "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", "filesAnalyzed": bool(files), **fields}
        if urls:
            package["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": urls}]
        if files:
            sums = sorted(hashlib.sha1(data).hexdigest() for data in files.values())
            package["packageVerificationCode"] = {"packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest()}
            package["licenseInfoFromFiles"] = ["NOASSERTION"]
        self.packages[ident] = package
        for path, data in sorted(files.items()):
            self.relate(ident, "CONTAINS", self.file(key, path, data))
        return ident

    def file(self, key, path, data):
        ident = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{key}-{path}")
        self.files.append({"SPDXID": ident, "fileName": f"./{path}", "licenseConcluded": "NOASSERTION", "licenseInfoInFiles": ["NOASSERTION"],
                           "copyrightText": "NOASSERTION",
                           "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                                         {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}]})
        return ident

    def debian(self, key, fields, distribution, files=None):
        """Adds an installed Debian package."""
        origin, version = debian.source(fields)
        return self.package(key, fields["Package"], fields["Version"], files=files or {}, supplier="Organization: Debian",
                            originator="Organization: " + re.sub(r" *<.*", "", fields.get("Maintainer", "Debian")),
                            licenseDeclared=debian.licence(fields["Package"]), purl=debian.purl(fields, distribution),
                            sourceInfo=f"built from the Debian source package {origin} {version}",
                            comment=f"its licences in full: /usr/share/doc/{fields['Package']}/copyright")

    def relate(self, one, kind, other):
        self.relationships.append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})

    def text(self):
        created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
        name = self.path.name
        whole = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
                 "documentNamespace": f"urn:queue-sidecar:sbom:{name}:{self.digest}",
                 "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                  "creators": ["Organization: queue-sidecar", f"Tool: queue-sidecar-{self.version}"]},
                 "packages": list(self.packages.values()), "files": self.files, "relationships": self.relationships}
        if any(package["licenseDeclared"] == PUBLIC_DOMAIN["licenseId"] for package in whole["packages"]):
            whole["hasExtractedLicensingInfos"] = [PUBLIC_DOMAIN]
        return json.dumps({key: value for key, value in whole.items() if value != []}, indent=1) + "\n"


def described(document, **fields):
    """Adds the file that the document is about."""
    ident = document.package("file", document.path.name, document.version, packageFileName=document.path.name,
                             checksums=[{"algorithm": "SHA256", "checksumValue": document.digest}], **fields)
    document.relate("SPDXRef-DOCUMENT", "DESCRIBES", ident)
    return ident


def of_image(document):
    digest, images = archive.images(document.path)
    whole = described(document, **IMAGE, purl=f"pkg:oci/queue-sidecar@{digest.replace(':', '%3A')}")
    for image in images:
        one = document.package(image.arch, f"queue-sidecar image, linux/{image.arch}", document.version, **IMAGE,
                               checksums=[{"algorithm": "SHA256", "checksumValue": image.digest.split(":")[1]}])
        document.relate(whole, "CONTAINS", one)
        of_root(document, one, image)


def of_root(document, parent, image):
    """Adds program and Debian packages of one image. Each file in /usr/bin and each library belongs to one of them."""
    files = {path: data for path, data in image.files.items() if re.match(r"usr/(bin|lib|lib64)/", path)}
    system = dict(re.findall(r'^(\w+)="?([^"\n]*)', image.files["etc/os-release"].decode(), re.M))
    distribution = f"{system['ID']}-{system['VERSION_ID']}"
    own = "usr/bin/queue-sidecar"
    program = document.package(f"{image.arch}-program", "queue-sidecar", document.version, files={own: files.pop(own)}, **OURS,
                               primaryPackagePurpose="APPLICATION", purl=f"pkg:generic/queue-sidecar@{document.version.replace('+', '%2B')}")
    document.relate(parent, "CONTAINS", program)
    place = "var/lib/dpkg/status.d/"
    for path, text in sorted(image.files.items()):
        if not path.startswith(place) or path.endswith(".md5sums"):
            continue
        listed = re.findall(r"(?m)^\w+  (?:usr/)?(.*)$", image.files[f"{path}.md5sums"].decode())
        library = {name: files.pop(name) for name in (f"usr/{name}" for name in listed) if name in files}
        package = document.debian(f"{image.arch}-{path[len(place):]}", debian.stanza(text.decode()), distribution, library)
        document.relate(parent, "CONTAINS", package)
        document.relate(program, "DEPENDS_ON", package)
    if files:
        raise SystemExit(f"sbom.py: no package in {place} has {', '.join(sorted(files))}")


def of_deb(document, buildinfo):
    """Adds the files of the package, and each package that it depends on in the version with which it was built."""
    fields = debian.stanza(subprocess.run(["dpkg-deb", "-f", document.path], capture_output=True, text=True, check=True).stdout)
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", document.path], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {member.name.removeprefix("./"): tar.extractfile(member).read() for member in tar if member.isfile()}
    distribution = "debian-" + re.search(r"\+deb(\d+)", fields["Version"])[1]
    url = f"pkg:deb/{fields['Package']}@{urllib.parse.quote(fields['Version'], safe='.-~')}?arch={fields['Architecture']}&distro={distribution}"
    whole = described(document, files=files, primaryPackagePurpose="INSTALL", purl=url, **OURS)
    own = sorted(debian.installed(buildinfo), key=lambda other: other["Architecture"] == fields["Architecture"])
    built = {other["Package"]: other for other in own}
    for kind in ("Pre-Depends", "Depends", "Recommends"):
        for name in re.findall(r"(?:^|, *)([\w.+-]+)", fields.get(kind, "")):
            other = {"Package": name, "Version": debian.ANY, **built.get(name, {}), "Architecture": fields["Architecture"]}
            package = document.debian(name, other, distribution)
            built_with = "any version" if other["Version"] == debian.ANY else "version: when that was built"
            document.packages[package]["comment"] = f"{kind} of {document.path.name}, which does not contain it; {built_with}"
            document.relate(*(package, "OPTIONAL_DEPENDENCY_OF", whole) if kind == "Recommends" else (whole, "DEPENDS_ON", package))


def main():
    version, path = sys.argv[1], pathlib.Path(sys.argv[2])
    document = Document(version, path)
    if path.suffix == ".deb":
        of_deb(document, pathlib.Path(sys.argv[3]))
    else:
        of_image(document)
    sys.stdout.write(document.text())


if __name__ == "__main__":
    main()
