"""Renders the examples of deploy/, and each combination of components with the manifests in tests/deploy/base."""
import copy
import itertools
import os
import pathlib
import re
import subprocess
import textwrap
from concurrent.futures import ThreadPoolExecutor

import yaml

DEPLOY = pathlib.Path("deploy")
BASE = pathlib.Path("tests/deploy/base")
PLACE = pathlib.Path(os.environ.get("QS_DEPLOY_DIR", "build/deploy"))
KUSTOMIZE = PLACE / "bin/kustomize"
# The C parser, if available, because 40 renderings are a megabyte.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

CONFIG = 'group = "app"; redis = { host = "redis"; }; queues = ( { name = "email"; max_payload = "1MiB"; } );\n'


class Case:
    """One rendering: the documents without the components (base) and with them (docs)."""

    def __init__(self, name, directory, base, components=(), legacy=False):
        self.name = name
        self.directory = pathlib.Path(directory)
        self.base_directory = pathlib.Path(base)
        self.components = set(components)
        self.legacy = legacy
        self.base = self.docs = None

    def changed(self, change):
        """A copy whose documents were changed by `change`, for tests of the rules."""
        other = copy.copy(self)
        other.docs = copy.deepcopy(self.docs)
        change(other.docs)
        return other


def build(directory):
    done = subprocess.run([KUSTOMIZE, "build", directory], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr.strip()


def rendered(directory):
    code, out, err = build(directory)
    if code != 0:
        raise SystemExit(f"{directory}/kustomization.yaml:1: kustomize build failed: {err}")
    return [doc for doc in yaml.load_all(out, LOADER) if doc]


def readme(title, language="yaml", page=DEPLOY / "README.md"):
    """A block of deploy/README.md or another page: ```LANGUAGE TITLE."""
    found = re.search(rf"^( *)```{language} {title}\n(.*?)^\1```$", page.read_text(), re.M | re.S)
    return textwrap.dedent(found.group(2))


def write(name, kustomization):
    directory = PLACE / "cases" / name
    directory.mkdir(parents=True, exist_ok=True)
    # In the same directory, because kustomize reads only files below the kustomization.
    (directory / "queue-sidecar.cfg").write_text(CONFIG)
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization, sort_keys=False))
    return directory


def from_case(path):
    return os.path.relpath(path, PLACE / "cases/any")


def kustomization(components, base="mixed", **more):
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [from_case(BASE / base)],
        "components": [from_case(DEPLOY / "kustomize" / name) for name in components],
        "configMapGenerator": [
            {"name": "queue-sidecar", "files": ["queue-sidecar.cfg"], "options": {"disableNameSuffixHash": True}}
        ],
        **more,
    }


def combinations():
    """`sidecar` and `legacy-container`, each with every combination of the other components."""
    for first in ("sidecar", "legacy-container"):
        legacy = first != "sidecar"
        base = "pods" if legacy else "mixed"
        others = ("readiness", "pvc", "monitoring")
        for chosen in itertools.product((False, True), repeat=len(others)):
            components = [first] + [name for name, take in zip(others, chosen) if take]
            directory = write("-".join(components), kustomization(components, base))
            yield Case(directory.name, directory, BASE / base, components, legacy)


def examples():
    for directory in sorted(path.parent for path in (DEPLOY / "examples").glob("*/kustomization.yaml")):
        listed = yaml.safe_load((directory / "kustomization.yaml").read_text())["components"]
        yield Case(f"example {directory.name}", directory, directory / "base", [pathlib.Path(path).name for path in listed])


def all_cases():
    cases = [*examples(), *combinations()]
    # The operator's kustomization may rename objects: references to them must follow.
    renamed = write("renamed", kustomization(["sidecar", "monitoring"], namePrefix="team-", nameSuffix="-blue", namespace="jobs"))
    bare = write("bare", {**kustomization([]), "namePrefix": "team-", "nameSuffix": "-blue", "namespace": "jobs"})
    cases.append(Case("renamed", renamed, bare, ["sidecar", "monitoring"]))
    own = kustomization(["sidecar"], **yaml.safe_load(readme("own config")))
    own["configMapGenerator"].append({**own["configMapGenerator"][0], "name": "bare-queue-sidecar"})
    cases.append(Case("own config", write("own-config", own), BASE / "mixed", ["sidecar"]))
    two = kustomization(["sidecar"], "two", **yaml.safe_load(readme("two configs")))
    directory = write("two-configs", two)
    for name in ("mailer", "shop"):
        (directory / f"{name}.cfg").write_text(CONFIG.replace('"app"', f'"{name}"'))
    cases.append(Case("two configs", directory, BASE / "two", ["sidecar"]))
    with ThreadPoolExecutor(2) as pool:
        paths = {path for case in cases for path in (case.directory, case.base_directory)}
        results = dict(zip(paths, pool.map(rendered, paths)))
    for case in cases:
        case.docs, case.base = results[case.directory], results[case.base_directory]
    return cases
