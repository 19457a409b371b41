"""names.py KIND [PORT] <TEXT: prints the items of a text that are an interface, one a line.

json     paths of the members of JSON: queues[].name
values   members of JSON lines with their values: [0].attempts=1; 0 attempts as null, which 0.1.0 did not know
options  options of a help page, as a command line gives them: -q x, --queue x
commands words that begin the rows of the lists in a help page
metrics  metric families and types, from /metrics at PORT instead of TEXT
"""
import json
import re
import sys
import urllib.request


def members(value, path=""):
    for name, item in enumerate(value) if isinstance(value, list) else value.items():
        here = f"{path}[{name}]" if isinstance(value, list) else f"{path}.{name}".lstrip(".")
        yield here, item
        if isinstance(item, (dict, list)):
            yield from members(item, here)


def values(text):
    for path, item in members([json.loads(line) for line in text.splitlines()]):
        if path.endswith("attempts") and item == 0:
            item = None
        if not isinstance(item, (dict, list)):
            yield f"{path}={json.dumps(item)}"


def options(page):
    for line in re.findall(r"^ +((?:-\w, )?--[a-z].*)", page, re.M):
        names, value = re.match(r"((?:-\w, )?--[a-z-]+)( [A-Z]\w*)?", line).groups()
        for name in names.split(", "):
            yield name + (" x" if value else "")


KINDS = {
    "json": lambda text: (re.sub(r"\[\d+\]", "[]", path) for path, _ in members(json.loads(text))),
    "values": values,
    "options": options,
    "commands": lambda text: re.findall(r"^ +([a-z]+)  +[A-Z]", text, re.M),
    "metrics": lambda text: re.findall(r"^# TYPE .*", text, re.M),
}
if len(sys.argv) > 2:
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[2]}/metrics", timeout=10) as page:
        source = page.read().decode()
else:
    source = sys.stdin.read()
sys.stdout.writelines(line + "\n" for line in sorted(set(KINDS[sys.argv[1]](source))))
