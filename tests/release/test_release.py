"""What `make release` makes: the same bytes each time, from a clean tree, signed, with an origin."""
import json
import os
import pathlib
import re
import shutil
import socket
import tarfile
import tempfile
import unittest

from release import FILES, ONE, OTHER, PARTS, TOP, VERSION, clone, make, run, sums

TARBALL = f"queue-sidecar-{VERSION}.tar.gz"


class Case(unittest.TestCase):
    def directory(self):
        place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, place)
        return pathlib.Path(place)


class Bytes(Case):
    def test_two_machines_make_the_same_bytes(self):
        self.assertEqual(sums(FILES), sums(OTHER / "build/release"))

    def test_a_time_in_a_file_is_noticed(self):
        """The comparison above can fail: gzip without -n stores the time."""
        tree = clone(self.directory() / "tree")
        script = tree / "deploy/release/release.sh"
        script.write_text(script.read_text().replace("gzip -9n", "gzip -9"))
        run("git", "update-index", "--assume-unchanged", "deploy/release/release.sh", cwd=tree)
        make(tree, "PARTS=source")
        self.assertNotEqual(sums(tree / "build/release")[TARBALL], sums(FILES)[TARBALL])


class Refusals(Case):
    def setUp(self):
        self.tree = clone(self.directory() / "tree")

    def test_changed_and_new_files_are_named(self):
        with (self.tree / "README.md").open("a") as file:
            file.write("more\n")
        (self.tree / "docs/new.md").write_text("new\n")
        said = make(self.tree, "PARTS=source", code=2)
        self.assertIn(" M README.md", said)
        self.assertIn("?? docs/new.md", said)
        self.assertFalse((self.tree / "build/release").exists())

    def test_the_tag_is_the_version(self):
        run("git", "tag", "v9.9.9", cwd=self.tree)
        self.assertIn(f"has the tag v9.9.9, but VERSION of the Makefile is {VERSION}", make(self.tree, "PARTS=source", code=2))
        run("git", "tag", "-d", "v9.9.9", cwd=self.tree)
        run("git", "tag", f"v{VERSION}", cwd=self.tree)
        make(self.tree, "PARTS=source")

    def test_a_source_archive_is_no_repository(self):
        place = self.directory()
        with tarfile.open(FILES / TARBALL) as tar:
            tar.extractall(place)
        self.assertIn("this tree is no git repository: clone it", make(place / TARBALL.removesuffix(".tar.gz"), code=2))

    def test_a_key_that_is_not_there(self):
        self.assertIn("cannot read SIGN_KEY: missing.key", make(self.tree, "PARTS=source", "SIGN_KEY=missing.key", code=2))


class Source(Case):
    def setUp(self):
        self.place = self.directory()
        with tarfile.open(FILES / TARBALL) as tar:
            self.members = tar.getmembers()
            tar.extractall(self.place)
        self.tree = self.place / TARBALL.removesuffix(".tar.gz")

    def test_has_the_files_of_the_commit(self):
        listed = set(run("git", "ls-files", cwd=ONE).splitlines())
        self.assertEqual({str(path.relative_to(self.tree)) for path in self.tree.rglob("*") if path.is_file()}, listed)
        self.assertEqual({(member.uid, member.gid, member.mode & 0o022) for member in self.members if not member.issym()}, {(0, 0, 0)})

    def test_builds_a_program_that_names_the_commit(self):
        run("nice", "make", "-s", "-j2", "CFLAGS=-O0", "all", cwd=self.tree)
        commit = run("git", "rev-parse", "HEAD", cwd=ONE)[:9]
        said = run(self.tree / "build/queue-sidecar", "version")
        self.assertIn(f"{VERSION}+g{commit}" if VERSION.endswith("-dev") else VERSION, said)


class Signature(Case):
    """The commands of SECURITY.md, in a clone whose SECURITY.md names the key of the test."""

    def setUp(self):
        place = self.directory()
        self.public, self.key = self.new_key(place)
        self.tree = clone(place / "tree")
        self.name_key(self.public)
        make(self.tree, "PARTS=source", f"SIGN_KEY={self.key}")
        self.files = self.tree / "build/release"

    def new_key(self, place):
        run("minisign", "-G", "-W", "-p", place / "pub", "-s", place / "key")
        return (place / "pub").read_text().splitlines()[1], place / "key"

    def name_key(self, public):
        page = self.tree / "SECURITY.md"
        page.write_text(re.sub(r"(minisign .*-P )\S+", rf"\g<1>{public}", page.read_text()))
        run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qam", "t", cwd=self.tree)

    def verify(self, code=0):
        (command,) = re.findall(r"^    (minisign .* && sha256sum .*)$", (self.tree / "SECURITY.md").read_text(), re.M)
        return run("sh", "-c", command, code=code, cwd=self.files)

    def test_verifies(self):
        said = self.verify()
        self.assertIn(f"Trusted comment: queue-sidecar {VERSION}, commit {run('git', 'rev-parse', 'HEAD', cwd=self.tree).strip()}", said)
        self.assertIn(f"{TARBALL}: OK", said)

    def test_a_changed_byte_is_noticed(self):
        for name in sums(self.files):
            path = self.files / name
            whole = path.read_bytes()
            path.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
            with self.subTest(name), self.assertRaisesRegex(AssertionError, "exit code"):
                self.verify()
            path.write_bytes(whole)
        self.verify()

    def test_a_part_of_the_files_is_enough(self):
        for name in set(sums(self.files)) - {TARBALL, "SHA256SUMS", "SHA256SUMS.minisig"}:
            (self.files / name).unlink()
        self.verify()

    def test_the_same_key_gives_the_same_bytes(self):
        before = sums(self.files)
        make(self.tree, "PARTS=source", f"SIGN_KEY={self.key}")
        self.assertEqual(sums(self.files), before)

    def test_another_key_neither_verifies_nor_signs(self):
        self.name_key(self.new_key(self.directory())[0])
        self.verify(code=1)
        self.assertIn("is not the key that SECURITY.md names", make(self.tree, "PARTS=source", f"SIGN_KEY={self.key}", code=2))


class Provenance(Case):
    def setUp(self):
        self.statement = json.loads((FILES / "provenance.json").read_text())

    def test_names_each_file_with_its_sum(self):
        own = {"provenance.json", "SHA256SUMS"}
        self.assertEqual({subject["name"]: subject["digest"]["sha256"] for subject in self.statement["subject"]},
                         {name: digest for name, digest in sums(FILES).items() if name not in own})
        listed = dict(line.split("  ")[::-1] for line in (FILES / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(listed, {name: digest for name, digest in sums(FILES).items() if name != "SHA256SUMS"})

    def test_follows_in_toto_and_slsa(self):
        self.assertEqual((self.statement["_type"], self.statement["predicateType"]),
                         ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"))
        definition, details = self.statement["predicate"]["buildDefinition"], self.statement["predicate"]["runDetails"]
        commit = run("git", "rev-parse", "HEAD", cwd=ONE).strip()
        self.assertEqual(definition["externalParameters"]["commit"], commit)
        self.assertEqual(definition["externalParameters"]["command"], f'make release PARTS="{" ".join(PARTS)}"')
        self.assertEqual(definition["resolvedDependencies"][0]["digest"], {"gitCommit": commit})
        for uri in (definition["buildType"], details["builder"]["id"], *(one["uri"] for one in definition["resolvedDependencies"][1:])):
            self.assertRegex(uri, r"^[a-z][a-z0-9+.-]*:\S+$")

    def test_the_builder_is_named(self):
        tree = clone(self.directory() / "tree")
        make(tree, "PARTS=source", "BUILDER=https://example.org/builder")
        told = json.loads((tree / "build/release/provenance.json").read_text())
        self.assertEqual(told["predicate"]["runDetails"]["builder"]["id"], "https://example.org/builder")


class Privacy(Case):
    def test_no_file_names_this_machine(self):
        """Texts of the release have no path, host or mirror of the machine that made it."""
        hosts = {word for line in run("apt-get", "indextargets", "--format", "$(SITE)").splitlines() for word in [line.split("//")[-1].split("/")[0]] if word}
        own = {str(TOP), str(ONE), str(OTHER), socket.gethostname(), *hosts} - {"debian", "localhost"}
        for path in FILES.iterdir():
            if path.suffix in (".json", "") or path.name.startswith("SHA256"):
                text = path.read_text()
                self.assertEqual([word for word in own if word in text], [], path.name)


class Cut(Case):
    def test_the_steps_change_each_place(self):
        """Step 2 of docs/releasing.md in a clone: then no check of the docs finds another version, but what only a maintainer knows."""
        tree = clone(self.directory() / "tree")
        if not VERSION.endswith("-dev"):
            self.skipTest("this is a release")
        commands = re.search(r"(?s)give the section its number.*?\n\n(.*?)\n       make docs", (TOP / "docs/releasing.md").read_text())[1]
        run("sh", "-euc", commands, cwd=tree)
        found = run("python3", "-c", "import docs; print(*docs.release(), sep='\\n')", cwd=tree, env={**os.environ, "PYTHONPATH": "tests/check"})
        self.assertEqual(re.findall(r"(?m)^(?!.*: a release must say).*$", found.strip()), [])
        self.assertNotIn(VERSION, run("git", "grep", "-h", "-e", VERSION, "--", ".", ":!tests", ":!Makefile", ":!CHANGELOG.md", code=1, cwd=tree))


class Readme(Case):
    @unittest.skipUnless({"source", "deb", "image", "chart"} <= set(PARTS), "PARTS are not all")
    def test_each_file_of_the_install_table_is_there(self):
        table = re.search(r"(?ms)^## Install\n(.*?)^## ", (TOP / "README.md").read_text())[1]
        patterns = re.findall(r"queue-sidecar[-_][^ `]*\.(?:deb|tar\.gz|tar|tgz)\b", table)
        self.assertEqual(len(patterns), 4)
        for pattern in patterns:
            self.assertEqual(len(list(FILES.glob(pattern))), 1, pattern)


class Workflow(Case):
    def test_calls_make_release_and_nothing_else(self):
        text = (TOP / ".github/workflows/release.yml").read_text()
        commands = re.findall(r"^ *- run: (.*)$", text, re.M)
        self.assertEqual([line for line in commands if not line.startswith("apt-get ")],
                         ['make release BUILDER="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/workflows/release.yml"'])
        self.assertEqual(text.count("run:"), len(commands))
        self.assertRegex(text, r"(?m)^ +path: build/release$")
        self.assertRegex(text, r'(?m)^on:\n  push:\n    tags: \["v\*"\]$')
        known = set(re.findall(r"uses: (actions/checkout@\S+)", (TOP / ".github/workflows/ci.yml").read_text()))
        self.assertLessEqual(set(re.findall(r"uses: (actions/checkout@\S+)", text)), known)


if __name__ == "__main__":
    unittest.main()
