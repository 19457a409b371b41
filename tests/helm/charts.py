"""Charts in build/deploy/charts, complete with their dependencies, and what Helm's own engine renders of them."""
import pathlib
import shutil
import subprocess
import tempfile

import yaml

from render import LOADER, PLACE

HELM = (PLACE / "bin/helm").resolve()
HOME = pathlib.Path("deploy/helm")
APP, LIB, EXAMPLE = HOME / "queue-sidecar", HOME / "queue-sidecar-lib", pathlib.Path("deploy/examples/chart")
WORK = PLACE / "charts"
# Like an empty field of values.yaml: without a config nothing is rendered.
CONFIG = 'group = "app";\nredis = { host = "redis"; };\nqueues = ( { name = "email"; max_payload = "1MiB"; } );\n'


def helm(*arguments, text=None):
    """Runs helm without a cluster and without the user's files. Returns exit code, stdout, stderr."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": "/usr/bin:/bin", "HOME": home, "KUBECONFIG": f"{home}/none"}
        done = subprocess.run([HELM, *arguments], env=env, input=text, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr.strip()


def complete(chart, name=None):
    """A copy of a chart as `helm package` writes it: links are files, and the library is in charts/."""
    place = WORK / (name or chart.name)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(chart, place, ignore=shutil.ignore_patterns("charts", "Chart.lock"))
    if chart != LIB:
        shutil.copytree(LIB, place / "charts" / LIB.name)
    return place


def render(place, values=None, release="queue-sidecar", command=("template",)):
    """Returns the documents of a chart, or the text of an error."""
    code, out, err = helm(*command, release, place, "--namespace", "jobs", "--values", "-", text=yaml.safe_dump(values or {}))
    return err if code else [doc for doc in yaml.load_all(out, LOADER) if doc]


def notes(place, values):
    """The text that `helm install` prints below the manifests."""
    code, out, err = helm("install", "queue-sidecar", place, "--namespace", "jobs", "--dry-run=client", "--values", "-", text=yaml.safe_dump(values))
    return err if code else out.partition("\nNOTES:\n")[2]
