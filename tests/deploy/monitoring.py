"""Checks alerts, runbook and dashboard: each alert has a test and an entry in the runbook, and every metric and label in an expression
exists."""
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
# Labels that Prometheus adds to each series because of the PodMonitor, which drops `endpoint` (and `le` of histograms).
TARGET = {"namespace", "pod", "container", "job", "instance", "le"}
# Grafana's variables with values for promtool.
GRAFANA = {"$__rate_interval": "5m", "$__range": "1h", "$namespace": "jobs", "$queue": "email", "$pod": "a-1"}


def families():
    """Metric families of /metrics: name -> labels."""
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
    """Yields each metric and label of an expression that does not exist."""
    used = set(re.findall(r"\bqueue_sidecar_[a-z_]+", expression))
    for name in sorted(used - known.keys()):
        yield f"{name} is not exposed"
    labels = set().union(TARGET, *(known.get(name, ()) for name in used))
    asked = itertools.chain(
        re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)", expression),
        *(names.replace(",", " ").split() for names in re.findall(r"\b(?:by|on)\s*\(([a-z_, ]*)\)", expression)),
    )
    for label in sorted(set(asked) - labels):
        yield f"no metric in it has the label {label}: {expression}"


def alerts():
    rule = yaml.safe_load(RULE.read_text())
    return [entry for group in rule["spec"]["groups"] for entry in group["rules"]]


def texts():
    """Rule file, runbook and tests have the same alerts."""
    known = families()
    names = [alert["alert"] for alert in alerts()]
    headings = re.findall(r"^### (\w+)$", (HOME / "runbook.md").read_text(), re.M)
    if headings != names:
        odd = sorted(set(headings) ^ set(names)) or "the order differs"
        yield f"{HOME}/runbook.md:1: its entries are not those of prometheusrule.yaml: {odd}"
    tested = set(re.findall(r'alertname="(\w+)"', TESTS.read_text()))
    for name in sorted(set(names) ^ tested):
        yield f"{TESTS}:1: {name} has no test, or is no alert"
    for alert in alerts():
        where = f"{RULE}:1: {alert['alert']}"
        if set(alert["annotations"]) != {"summary", "description", "runbook_url", "first_command"} or set(alert["labels"]) != {"severity"}:
            yield f"{where}: its labels or annotations are not those of the other alerts"
        for text in strange(alert["expr"], known):
            yield f"{where}: {text}"


def promtool(*arguments, place=None):
    tool = PROMTOOL.resolve()
    done = subprocess.run([tool, *arguments], cwd=place, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def rules():
    """promtool accepts the rules and passes their tests, with the rule file that deploy/README.md describes for use without the operator."""
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
    """Yields each alert that could stop firing without a failed test."""
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
                yield f"{TESTS}:1: no test fails if {alert['alert']} never fires"


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
            yield f"{where}: it does not use the variable of the data source"
        for target in panel["targets"]:
            asked.update(re.findall(r"\bqueue_sidecar_[a-z_]+", target["expr"]))
            for text in strange(target["expr"], known):
                yield f"{where}: {text}"
    for beside in (*board["templating"]["list"], *board["annotations"]["list"]):
        for text in strange(beside.get("expr") or beside.get("definition", ""), known):
            yield f"{DASHBOARD}:1: {beside['name']}: {text}"
    if not asked:
        yield f"{DASHBOARD}:1: it has no query with a metric of the sidecar"


def queries():
    """promtool checks each query of the dashboard as a rule."""
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


def scaling(trigger):
    """The query of the autoscaler in deploy/README.md counts waiting and running jobs once, whoever leads, and nothing of a standby."""
    place = PLACE / "rules"
    place.mkdir(parents=True, exist_ok=True)
    query = trigger["metadata"]["query"]
    for text in strange(query, families()):
        yield f"deploy/README.md:1: the trigger of KEDA: {text}"
    (place / "scaling.yaml").write_text(yaml.safe_dump({"groups": [{"name": "scaling", "rules": [{"record": "scale", "expr": query}]}]}))
    sample = 'queue_sidecar_{}_jobs{{namespace="jobs", pod="{}", queue="{}"}}'
    series = [
        (sample.format("ready", "a-1", "email"), "30x10 stale"),  # leads for ten minutes
        (sample.format("in_progress", "a-1", "email"), "4x10 stale"),
        (sample.format("ready", "a-2", "email"), "_x11 7x10"),
        (sample.format("in_progress", "a-2", "email"), "_x11 0x10"),
        (sample.format("ready", "a-1", "sms"), "99x20"),
        ('queue_sidecar_standby{namespace="jobs", pod="a-2"}', "1x10 0x10"),
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": [
            {"expr": "scale", "eval_time": time, "exp_samples": [{"labels": "scale", "value": value}]} for time, value in (("5m", 34), ("15m", 7))
        ],
    }
    (place / "scaling-test.yaml").write_text(yaml.safe_dump({"rule_files": ["scaling.yaml"], "evaluation_interval": "1m", "tests": [test]}))
    code, said = promtool("test", "rules", "scaling-test.yaml", place=place)
    if code != 0:
        yield f"deploy/README.md:1: the trigger of KEDA: {said}"
