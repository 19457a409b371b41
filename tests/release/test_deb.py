"""The SBOM of the Debian package."""
import hashlib
import json
import unittest

from release import FILES, PARTS, run
from test_image import LIBC, Case, script

CONTROL = """Package: queue-sidecar
Version: 1.2.3~dev-1+deb12
Architecture: arm64
Maintainer: M <m@example.org>
Depends: libc6 (>= 2.34), libhiredis0.14 (>= 0.14.0), systemd | systemd-sysusers
Recommends: ca-certificates
Description: d
"""
BUILDINFO = """Format: 1.0
Build-Architecture: amd64
Installed-Build-Depends:
 libc6:arm64 (= 2.36-9+x),
 libc6 (= 2.36-9),
 libhiredis0.14:arm64 (= 0.14.1-3)
Environment:
 LANG="C"
"""


class SmallSbom(Case):
    def setUp(self):
        super().setUp()
        root = self.place / "root"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/queue-sidecar").write_text("program")
        (root / "DEBIAN/control").write_text(CONTROL)
        (self.place / "small.buildinfo").write_text(BUILDINFO)
        run("dpkg-deb", "--build", "--root-owner-group", root, self.place / "small.deb")
        self.text = script("sbom.py", "1.2.3", self.place / "small.deb", self.place / "small.buildinfo")

    def test_is_spdx(self):
        self.validate(self.text)

    def test_tells_files_and_packages_that_it_needs(self):
        document = json.loads(self.text)
        packages = {package["name"]: package for package in document["packages"]}
        self.assertEqual({name: package["versionInfo"] for name, package in packages.items()},
                         {"small.deb": "1.2.3", "libc6": "2.36-9+x", "libhiredis0.14": "0.14.1-3", "systemd": "any", "ca-certificates": "any"})
        self.assertEqual([file["checksums"][1]["checksumValue"] for file in document["files"]], [hashlib.sha256(b"program").hexdigest()])
        self.assertEqual(packages["small.deb"]["checksums"][0]["checksumValue"],
                         hashlib.sha256((self.place / "small.deb").read_bytes()).hexdigest())
        self.assertEqual(packages["libhiredis0.14"]["externalRefs"][0]["referenceLocator"],
                         "pkg:deb/debian/libhiredis0.14@0.14.1-3?arch=arm64&distro=debian-12")
        self.assertEqual(packages["systemd"]["externalRefs"][0]["referenceLocator"], "pkg:deb/debian/systemd?arch=arm64&distro=debian-12")
        self.assertNotIn("when that was built", packages["systemd"]["comment"])
        links = {(link["relationshipType"], link["relatedSpdxElement"], link["spdxElementId"]) for link in document["relationships"]}
        self.assertIn(("DEPENDS_ON", "SPDXRef-libc6", "SPDXRef-file"), links)
        self.assertIn(("OPTIONAL_DEPENDENCY_OF", "SPDXRef-file", "SPDXRef-ca-certificates"), links)


class Materials(Case):
    def test_provenance_names_what_the_builds_had_installed(self):
        gone = LIBC.replace("install ok installed", "deinstall ok config-files").replace("2.41", "2.40")
        for name, text in (("files/a", "a"), ("b.buildinfo", BUILDINFO), ("c.status", f"{LIBC}\n{gone}")):
            (self.place / name).parent.mkdir(exist_ok=True)
            (self.place / name).write_text(text)
        told = json.loads(script("provenance.py", self.place / "files", "1.2.3", "c0ffee", "https://example.org/q", self.place / "b.buildinfo",
                                 self.place / "c.status"))
        self.assertEqual(told["predicate"]["buildDefinition"]["resolvedDependencies"],
                         [{"name": "source", "digest": {"gitCommit": "c0ffee"}, "uri": "git+https://example.org/q"},
                          {"uri": "pkg:deb/debian/libc6@2.36-9%2Bx?arch=arm64"}, {"uri": "pkg:deb/debian/libc6@2.36-9?arch=amd64"},
                          {"uri": "pkg:deb/debian/libc6@2.41-12%2Bb1?arch=amd64"},
                          {"uri": "pkg:deb/debian/libhiredis0.14@0.14.1-3?arch=arm64"}])


@unittest.skipUnless("deb" in PARTS, "PARTS has no deb")
class RealSbom(Case):
    def test_each_deb_has_one(self):
        debs = sorted(FILES.glob("queue-sidecar_*.deb"))
        self.assertGreaterEqual(len(debs), 2)
        for path in debs:
            with self.subTest(path.name):
                text = path.with_name(f"{path.name}.spdx.json").read_text()
                self.validate(text)
                versions = {package["name"]: package["versionInfo"] for package in json.loads(text)["packages"]}
                self.assertRegex(versions["libc6"], r"^2\.\d")
                self.assertLessEqual({"libgnutls30", "libmicrohttpd12"}, {name.removesuffix("t64") for name in versions})


if __name__ == "__main__":
    unittest.main()
