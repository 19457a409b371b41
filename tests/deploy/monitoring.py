"""Alerts, runbook and dashboard: each alert has a test and an entry, and all of them ask only for metrics that exist, by labels that
those have."""
import itertools
import json
import pathlib
import re
import subprocess

import yaml

from configs import PROGRAM
from render import DEPLOY, PLACE

PROMTOOL = pathlib.Path("build/promtool")
HOME = DEPLOY / "kustomize/monitoring"
RULE = HOME / "prometheusrule.yaml"
TESTS = pathlib.Path("tests/deploy/alerts.yaml")
DASHBOARD = HOME / "dashboard.json"
# What Prometheus, by the PodMonitor, adds to each series.
TARGET = {"namespace", "pod", "container", "job", "instance", "endpoint", "le"}
# Variables of Grafana, as a query could have them.
GRAFANA = {"$__rate_interval": "5m", "$__range": "1h", "$namespace": "jobs", "$queue": "email", "$pod": "a-1"}


def families():
    """name -> labels, of what /metrics exposes."""
    done = subprocess.run([PROGRAM, "help", "metrics"], capture_output=True, text=True, timeout=60, check=True)
    found = {}
    for line in done.stdout.splitlines():
        name, kind, labels, _ = line.split("\t", 3)
        labels = set(labels.replace(",", " ").split())
        found[name] = labels
        if kind == "histogram":
            for end in ("_bucket", "_sum", "_count"):
                found[name + end] = labels
    return found


def strange(expression, known):
    """What an expression asks for that does not exist."""
    used = set(re.findall(r"\bqueue_sidecar_[a-z_]+", expression))
    for name in sorted(used - known.keys()):
        yield f"{name} is not exposed"
    labels = set().union(TARGET, *(known.get(name, ()) for name in used))
    asked = itertools.chain(
        re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)", expression),
        *(names.replace(",", " ").split() for names in re.findall(r"\b(?:by|on)\s*\(([a-z_, ]*)\)", expression)),
    )
    for label in sorted(set(asked) - labels):
        yield f"no metric of it has the label {label}: {expression}"


def alerts():
    rule = yaml.safe_load(RULE.read_text())
    return [entry for group in rule["spec"]["groups"] for entry in group["rules"]]


def texts():
    """Alerts, runbook and tests tell of the same alerts."""
    known = families()
    names = [alert["alert"] for alert in alerts()]
    headings = re.findall(r"^### (\w+)$", (HOME / "runbook.md").read_text(), re.M)
    if headings != names:
        odd = sorted(set(headings) ^ set(names)) or "in another order"
        yield f"{HOME}/runbook.md:1: its entries are not those of prometheusrule.yaml: {odd}"
    tested = set(re.findall(r'alertname="(\w+)"', TESTS.read_text()))
    for name in sorted(set(names) ^ tested):
        yield f"{TESTS}:1: {name} has no test, or is no alert"
    for alert in alerts():
        where = f"{RULE}:1: {alert['alert']}"
        if set(alert["annotations"]) != {"summary", "description"} or set(alert["labels"]) != {"severity"}:
            yield f"{where}: it has other labels or annotations than the rest"
        for text in strange(alert["expr"], known):
            yield f"{where}: {text}"


def promtool(*arguments, place=None):
    tool = PROMTOOL.resolve()
    done = subprocess.run([tool, *arguments], cwd=place, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def rules():
    """By promtool, and as deploy/README.md says for people without the operator."""
    place = PLACE / "rules"
    place.mkdir(parents=True, exist_ok=True)
    plain = subprocess.run(["sed", "-n", r"/^spec:/,$s/^  //p", RULE], capture_output=True, text=True, check=True).stdout
    (place / "rules.yaml").write_text(plain)
    (place / "alerts.yaml").write_text(TESTS.read_text())
    for command in (("check", "rules", "rules.yaml"), ("test", "rules", "alerts.yaml")):
        code, said = promtool(*command, place=place)
        if code != 0:
            yield f"{TESTS}:1: promtool {command[0]} {command[1]}: {said}"


def unseen():
    """Alerts whose absence, or whose threshold out of reach, no test would notice."""
    place = PLACE / "rules-spoilt"
    place.mkdir(parents=True, exist_ok=True)
    tests = yaml.safe_load(TESTS.read_text())
    rule = yaml.safe_load(RULE.read_text())["spec"]
    for group in rule["groups"]:
        for alert in group["rules"]:
            kept = alert["expr"]
            alert["expr"] = f"({kept}) < -1"
            (place / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [alert]}]}))
            alert["expr"] = kept
            about = [test for test in tests["tests"] if f'alertname="{alert["alert"]}"' in str(test)]
            (place / "alerts.yaml").write_text(yaml.safe_dump({**tests, "tests": about}))
            if promtool("test", "rules", "alerts.yaml", place=place)[0] == 0:
                yield f"{TESTS}:1: {alert['alert']} may stay silent, and no test sees it"


def panels(board):
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def overlaps(board):
    places = [(panel["title"], panel["gridPos"]) for panel in board["panels"]]
    for (one, a), (two, b) in itertools.combinations(places, 2):
        if a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]:
            yield f"{DASHBOARD}:1: panels {one} and {two} overlap"
    for title, place in places:
        if place["x"] + place["w"] > 24:
            yield f"{DASHBOARD}:1: panel {title} is wider than the page"


def dashboard():
    board = json.loads(DASHBOARD.read_text())
    known = families()
    yield from overlaps(board)
    numbers = [panel["id"] for panel in panels(board)]
    if len(numbers) != len(set(numbers)):
        yield f"{DASHBOARD}:1: two panels have one id"
    asked = set()
    for panel in panels(board):
        where = f"{DASHBOARD}:1: {panel['title']}"
        if panel["type"] == "row":
            continue
        if not panel.get("description") or not panel["fieldConfig"]["defaults"].get("unit"):
            yield f"{where}: it has no description, or no unit"
        if panel["datasource"]["uid"] != "${datasource}":
            yield f"{where}: it is bound to one data source"
        for target in panel["targets"]:
            asked.update(re.findall(r"\bqueue_sidecar_[a-z_]+", target["expr"]))
            for text in strange(target["expr"], known):
                yield f"{where}: {text}"
    for beside in (*board["templating"]["list"], *board["annotations"]["list"]):
        for text in strange(beside.get("expr") or beside.get("definition", ""), known):
            yield f"{DASHBOARD}:1: {beside['name']}: {text}"
    if not asked:
        yield f"{DASHBOARD}:1: it asks for nothing"


def queries():
    """promtool reads each query of the dashboard as a rule."""
    board = json.loads(DASHBOARD.read_text())
    place = PLACE / "rules"
    place.mkdir(parents=True, exist_ok=True)
    found = []
    asked = [target for panel in panels(board) for target in panel.get("targets", [])] + board["annotations"]["list"]
    for number, target in enumerate(asked):
        expression = target["expr"]
        for variable, value in GRAFANA.items():
            expression = expression.replace(variable, value)
        found.append({"record": f"query_{number}", "expr": expression})
    (place / "dashboard.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": found}]}))
    code, said = promtool("check", "rules", "dashboard.yaml", place=place)
    if code != 0:
        yield f"{DASHBOARD}:1: {said}"
