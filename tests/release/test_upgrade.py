"""The section "Upgrade from" of the changelog says what really changed since the previous release."""
import re
import subprocess
import unittest

from release import TOP

PREVIOUS, COMMIT = (TOP / "tests/upgrade/previous").read_text().split()
LOG = (TOP / "CHANGELOG.md").read_text()


def before(path):
    """A file of the previous release; empty if it had none."""
    return subprocess.run(["git", "show", f"{COMMIT}:{path}"], cwd=TOP, capture_output=True, text=True, check=False).stdout


def rights(text):
    """The rights of the first user of an ACL, whose command takes several lines."""
    return set(re.findall(r"(?<=[ \n])\+[\w|-]+", re.search(r"(?s)ACL SETUSER sidecar reset.*?```", text)[0]))


def defaults(text):
    """{section.key: default} of a sample config, without the names of queues."""
    found, section = {}, ""
    for line in text.split("\nqueues = ")[0].splitlines():
        if match := re.match(r"(\w+) = \{", line):
            section = match[1] + "."
        elif line.startswith("}"):
            section = ""
        elif match := re.match(r" *(\w+) = (.*);$", line):
            found[section + match[1]] = match[2]
    return found


def alert_labels(text):
    """{alert: labels of its result}"""
    return {name: by.replace(" ", "").split(",") for name, by in re.findall(r"(?s)- alert: (\w+)\n.*?\bby \(([^)]*)\)", text)}


@unittest.skipUnless(before("Makefile"), "the history lacks the previous release (git fetch --unshallow)")
class Upgrade(unittest.TestCase):
    def setUp(self):
        found = re.search(rf"^### Upgrade from {re.escape(PREVIOUS)}\n(.*?)^### ", LOG, re.M | re.S)
        self.assertTrue(found, f"CHANGELOG.md has no section \"Upgrade from {PREVIOUS}\"")
        self.text = found[1]

    def block(self, name):
        return re.search(rf"(?s)```upgrade {name}\n(.*?)```", self.text)[1].split()

    def test_rights(self):
        old = rights(before("docs/acl.md") or before("README.md"))
        new = rights((TOP / "docs/acl.md").read_text())
        self.assertEqual({word for word in self.block("acl") if word.startswith("+")}, new - old)
        self.assertLessEqual(old, new)

    def test_defaults(self):
        old, new = defaults(before("conf/queue-sidecar.cfg")), defaults((TOP / "conf/queue-sidecar.cfg").read_text())
        self.assertGreater(len(old), 40)
        changed = {key: (old[key], new.get(key)) for key in old if old[key] != new.get(key) and not key.endswith(("group", "name"))}
        told = {key: (was, now) for key, was, now in re.findall(r"\| `([\w.]+)` \| `([^`]*)` \| `([^`]*)` \|", self.text)}
        self.assertEqual(told, changed)

    def test_alerts(self):
        place = "deploy/kustomize/monitoring/prometheusrule.yaml"
        old, new = alert_labels(before(place)), alert_labels((TOP / place).read_text())
        self.assertEqual(set(self.block("alerts")), {name for name, labels in old.items() if "pod" in labels and "pod" not in new[name]})
        self.assertLessEqual(set(old), set(new))


if __name__ == "__main__":
    unittest.main()
