"""The packages of the charts."""
import tarfile
import unittest

from release import FILES, PARTS, TOP, VERSION, run
from test_image import Case, script


class SmallChart(Case):
    def setUp(self):
        super().setUp()
        needs = "dependencies:\n  - name: parts\n    repository: file://../parts\n    version: 1.2.3\n"
        texts = {"app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.2.3\n" + needs,
                 "app/templates/a.yaml": "a: 1\n", "app/.helmignore": "*.orig\n", "parts/Chart.yaml": "name: parts\ntype: library\nversion: 1.2.3\n"}
        for path, text in texts.items():
            (self.place / path).parent.mkdir(parents=True, exist_ok=True)
            (self.place / path).write_text(text)
        run("git", "init", "-q", cwd=self.place)
        run("git", "add", ".", cwd=self.place)
        (self.place / "app/notes.orig").write_text("not in git\n")

    def test_has_the_files_of_git_and_its_dependency(self):
        self.assertIn("app-1.2.3.tgz", script("chart.py", self.place / "app", self.place))
        with tarfile.open(self.place / "app-1.2.3.tgz") as tar:
            self.assertEqual({(member.name, member.mode, member.mtime) for member in tar},
                             {(name, 0o644, 1700000000) for name in ("app/Chart.yaml", "app/templates/a.yaml", "app/charts/parts/Chart.yaml")})


@unittest.skipUnless("chart" in PARTS, "PARTS has no chart")
class RealChart(Case):
    def test_is_of_this_version(self):
        with tarfile.open(FILES / f"queue-sidecar-{VERSION}.tgz") as tar:
            about = tar.extractfile("queue-sidecar/Chart.yaml").read().decode()
        self.assertRegex(about, rf"(?m)^version: {VERSION}$")
        self.assertRegex(about, rf'(?m)^appVersion: "?{VERSION}"?$')

    def test_helm_reads_it(self):
        helm = TOP / "build/deploy/bin/helm"
        if not helm.exists():
            self.skipTest("there is no build/deploy/bin/helm (tests/deploy/tools.sh builds it)")
        path = FILES / f"queue-sidecar-{VERSION}.tgz"
        run(helm, "lint", "--strict", path)
        self.assertIn("kind: Deployment", run(helm, "template", "queue-sidecar", path, "--set", "existingConfigMap=q"))


if __name__ == "__main__":
    unittest.main()
