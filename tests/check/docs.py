#!/usr/bin/env python3
"""The documents: `--write` (make docs) fills the blocks that come from the program, `--check` (make check) reports faults.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. Its text comes from the program (QS_PROGRAM, default
build/queue-sidecar) or from the sources. The check also finds dead relative links and anchors, lines above 160 columns, a README.md
above 250 lines, log messages that a page explains but no source contains, and names of functions and source files that do not exist, and
sentences that something is not in this version although a config key has its name.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import textwrap

PROGRAM = os.environ.get("QS_PROGRAM", "build/queue-sidecar")
MAX_COLUMNS = 160
WRAPPED_COLUMNS = 120
MAX_README_LINES = 250
SKIPPED = {"build", ".git"}
BLOCK = re.compile(r"^<!-- generated: (\w+)(?: (\S+))? -->\n(.*?)^<!-- end -->$", re.M | re.S)
FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
# Files of users.
USERS_FILES = {"handler.py", "worker.py", "heartbeat.py", "producer.py"}
# Files have these words until a release puts something in their place.
OPEN = [("SECURITY.md", "SECURITY-ADDRESS", "where to report a vulnerability"),
        ("SECURITY.md", "RELEASE-KEY", "which public key its files are signed for"),
        ("deploy/debian/control", "@queue-sidecar.example.org", "the address of its maintainers")]
# Head of a table's first column that must have only messages of the log.
MESSAGES_HEAD = "log message"
MESSAGES_PAGE = pathlib.Path("docs/operations.md")


def documents():
    found = (path for path in pathlib.Path(".").rglob("*.md") if not SKIPPED & set(path.parts))
    return sorted(found)


# ---- blocks from the output of the program


@functools.lru_cache
def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=True).stdout


def rows(table):
    return [line.split("\t") for line in program("help", table).splitlines()]


def item(text):
    """One point of a list, wrapped."""
    return textwrap.fill(text, WRAPPED_COLUMNS, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def sentence(text):
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def points(lines):
    return "\n".join(item(line) for line in lines)


def key_line(name, default, allowed, reload, text, dialects):
    """A key of the config: name, default, meaning; then what is allowed."""
    facts = [f"default `{default}`" if default else "no default", f"allowed: {allowed}"]
    if dialects:
        facts.append("dialects: " + ", ".join(dialects.split(",")))
    if reload == "restart":
        facts.append("needs a restart")
    return f"**`{name}`**: {sentence(text)} *({'; '.join(facts)})*"


SECTIONS = {"": "top level", "queue": "defaults", "queue-only": "queues"}


def keys(section):
    """Every key of one section of the config, as `help keys` prints them."""
    wanted = {"top": "", "defaults": "queue", "queues": "queue-only"}.get(section, section)
    found = [row for row in rows("keys") if row[0] == wanted]
    return points(key_line(name, default, allowed, reload, text, dialects) for _, name, _, default, allowed, reload, text, dialects in found)


def key_index(_):
    """The sections of the config and the names of their keys."""
    sections = {}
    for section, name, *_ in rows("keys"):
        sections.setdefault(SECTIONS.get(section, section), []).append(f"`{name}`")
    lines = ["| section | keys |", "|---|---|"]
    for section, names in sections.items():
        label = section if section == "top level" else f"`{section}`"
        for number, part in enumerate(textwrap.wrap(", ".join(names), 120)):
            lines.append(f"| {label if number == 0 else ''} | {part.rstrip(',')} |")
    return "\n".join(lines)


def metrics(labels):
    """The metrics of a `queue` or a `role` (also with more labels), or of `none` of them."""
    found = []
    for name, kind, own, text in rows("metrics"):
        first = own.split(",")[0]
        if (first if first in ("queue", "role") else "none") == labels:
            note = f", labels {own}" if "," in own else f", label {own}" if own and labels == "none" else ""
            found.append(f"`{name}` ({kind}{note}): {text}")
    return points(found)


def exits(_):
    """The exit codes of the program."""
    general = re.search(r"^Exit codes: (.*?)\.$", program("help"), re.M | re.S)[1]
    lines = ["| code | meaning |", "|---|---|"]
    for part in re.sub(r"\s+", " ", general).split("; "):
        code, meaning = part.split(" ", 1)
        lines.append(f"| {code} | {meaning} |")
    return "\n".join(lines)


def commands(_):
    """The commands and the purpose of each."""
    lines = ["| command | purpose |", "|---|---|"]
    for name, purpose in re.findall(r"^  (\w+) {2,}(\S.*)$", re.search(r"^Commands:\n(.*?)\n\n", program("help"), re.M | re.S)[1], re.M):
        lines.append(f"| `queue-sidecar {name}` | {purpose} |")
    return "\n".join(lines)


# ---- blocks from the sources


@functools.lru_cache
def sources(pattern="*.c"):
    return [(path, path.read_text()) for path in sorted(pathlib.Path("sidecar").rglob(pattern))]


def arguments(text, start):
    """The arguments of the call whose parenthesis opens before `start`, split at their commas."""
    depth, found, begin, at = 1, [], start, start
    while depth:
        char = text[at]
        if char in "\"'":
            at += 1
            while text[at] != char:
                at += 2 if text[at] == "\\" else 1
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 1:
            found.append(text[begin:at])
            begin = at + 1
        at += 1
    return [argument.strip() for argument in found + [text[begin : at - 1]]]


def literals(code):
    """The string literals of an expression; adjacent literals are joined."""
    joined = re.findall(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*', code)
    return ["".join(part.replace('\\"', '"').replace("\\\\", "\\") for part in re.findall(r'"((?:[^"\\]|\\.)*)"', one)) for one in joined]


def assigned(expression, text):
    """The literals that a file assigns to the variable or field that an expression names."""
    name = re.findall(r"\w+", expression)[-1]
    values = re.findall(rf'\b{name} =\s*((?:[^;"]*\?\s*)?(?:"(?:[^"\\]|\\.)*"\s*:?\s*)+)', text)
    return [literal for value in values for literal in literals(value)]


@functools.lru_cache
def messages():
    """(level, role, message) of every call that writes to the log."""
    found = set()
    for path, text in sources():
        if path.match("base/log.c"):
            continue
        own = re.search(r'\bROLE(?:\[\])? *=? *"(\w+)"', text)
        for match in re.finditer(r"\blog_(error|warn|info|debug)\(|\bLOG_AT\(", text):
            call = arguments(text, match.end())
            levels = [match[1]] if match[1] else [level.lower() for level in re.findall(r"LOG_(\w+)", call.pop(0))]
            role = (literals(call[0]) or [own[1] if own else "any"])[0]
            for message in (literals(call[2]) or assigned(call[2], text)) if len(call) > 2 else []:
                found.update((level, role, message) for level in levels)
    for _, text in sources("anomaly.h"):
        found.update(("warn", "monitor", message) for message in re.findall(r'^ *X\(\w+, (?:LOOK|EVENT), \w+, "([^"]+)"\)', text, re.M))
    return sorted(found)


def log(level):
    """The messages of one level, by role."""
    roles = {}
    for own, role, message in messages():
        if own == level:
            roles.setdefault(role, []).append(message)
    lines = []
    for role, texts in sorted(roles.items()):
        lines.append(f"**{role}**\n\n" + points(f"`{text}`" if "`" not in text else f"`` {text} ``" for text in texts))
    return "\n\n".join(lines)


@functools.lru_cache
def points_of_failure():
    found = {}
    for path, text in sources():
        for name in re.findall(r'\b(?:crash_at|failpoint)\("(\w+)"\)', text):
            found.setdefault(name, set()).add(path)
    return found


def failpoints(_):
    """The failpoints, which are values of QS_CRASH_AT, and the files that have them."""
    files = {}
    for name, paths in points_of_failure().items():
        files.setdefault(", ".join(f"`{path}`" for path in sorted(paths)), []).append(f"`{name}`")
    return points(f"{where}: {', '.join(sorted(names))}" for where, names in sorted(files.items()))


SHOWN_USERS = 6
# Commands with a subcommand: the right is `command|subcommand`.
CONTAINERS = {"client", "cluster", "pubsub", "script", "xinfo", "config", "acl", "object", "memory", "function"}


def rights(_):
    """The commands of Redis that the program uses, and the users of each: scripts by name, C files by path."""
    users = {}
    for path, text in sources("*.lua"):
        if path.parent.name == "prologue":
            continue
        text = subprocess.run(["sh", "sidecar/queue/lua/embed.sh", "--join", str(path)], text=True, capture_output=True, check=True).stdout
        code = "\n".join(line.split("--", 1)[0] for line in text.splitlines())
        for command, part in re.findall(r"redis\.p?call\(\s*'(\w+)'(?:,\s*'(\w+)')?", code):
            right = f"{command}|{part}" if command.lower() in CONTAINERS and part else command
            users.setdefault(right.lower(), set()).add(f"`{path.name}`")
    for path, text in sources():
        if path.parent.name == "sentinel":
            continue  # these requests go to sentinels, which have users of their own
        for match in re.finditer(r'request_(?:begin|append)\([\w.>-]+, "([A-Z]+)"(?:, "([A-Z]+)")?', text):
            command, part = match[1].lower(), match[2]
            right = f"{command}|{part.lower()}" if command in CONTAINERS and part else command
            users.setdefault(right, set()).add(f"`{path.relative_to('sidecar')}`")
    lines = []
    for right, names in sorted(users.items()):
        names = sorted(names)
        more = f" and {len(names) - SHOWN_USERS} more" if len(names) > SHOWN_USERS else ""
        lines.append(f"`+{right}`: {', '.join(names[:SHOWN_USERS])}{more}")
    return points(lines)


def peers(load):
    """What `make bench-peers` measured last."""
    report = [sys.executable, "tests/bench/peers/report.py", "table", load]
    return subprocess.run(report, text=True, capture_output=True, check=True).stdout.rstrip("\n")


def yaml(path):
    """A file of values, with its comments."""
    return f"```yaml\n{pathlib.Path(path).read_text()}```"


GENERATORS = {
    function.__name__: function for function in (keys, key_index, metrics, exits, commands, log, failpoints, rights, peers, yaml)
}


def generated(match):
    name, argument, _ = match.groups()
    if name not in GENERATORS:
        sys.exit(f"a block is called {name}: there are {', '.join(GENERATORS)}")
    return f"<!-- generated: {name}{' ' + argument if argument else ''} -->\n{GENERATORS[name](argument)}\n<!-- end -->"


# ---- checks of a page: each yields (line, fault)


def blocks(path, text):
    for match in BLOCK.finditer(text):
        if generated(match) != match[0]:
            yield text.count("\n", 0, match.start()) + 1, f"the block {match[1]} is not the output of the program: run make docs"
    if text.count("<!-- generated: ") != len(BLOCK.findall(text)):
        yield 1, "a generated block has no end: write <!-- end --> below it"


def widths(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"has {len(line)} columns: at most {MAX_COLUMNS}"
    lines = text.count("\n")
    if path == pathlib.Path("README.md") and lines > MAX_README_LINES:
        yield lines, f"README.md has {lines} lines: at most {MAX_README_LINES}; move text to docs/"


def prose(text):
    """The text with code replaced by blanks, so that lines and columns stay the same."""
    text = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return re.sub(r"`+[^`\n]*`+", lambda match: " " * len(match[0]), text)


@functools.lru_cache
def anchors(path):
    """The anchors of a page, as GitHub makes them of its headings."""
    found, seen = set(), {}
    for heading in re.findall(r"^#+ +(.*?) *#*$", FENCE.sub("", path.read_text()), re.M):
        slug = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", slug).replace(" ", "-")
        seen[slug] = seen.get(slug, -1) + 1
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
    return found


def links(path, text):
    for number, line in enumerate(prose(text).splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            place, _, anchor = target.partition("#")
            file = path.parent / place if place else path
            if not file.exists():
                yield number, f"the link {target} leads nowhere"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield number, f"the link {target} names a heading that the page does not have"


def alerts():
    """Each alert leads to its entry of the runbook, and has a first command."""
    rules = pathlib.Path("deploy/kustomize/monitoring/prometheusrule.yaml")
    for alert in re.split(r"(?m)^ *- alert: ", rules.read_text())[1:]:
        name = alert.split()[0]
        url = re.search(r"runbook_url: (\S+)#(\S+)", alert)
        page, anchor = url.groups() if url else ("", "")
        if anchor != name.lower() or not pathlib.Path(page).is_file() or anchor not in anchors(pathlib.Path(page)):
            yield f"{rules}:1: {name} has no runbook_url that leads to its entry"
        if not re.search(r"first_command: (>-\s+)?kubectl ", alert):
            yield f"{rules}:1: {name} has no first_command"


def explanations(text):
    """(line, message) for each log message that a table explains."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split("|")
        if len(cells) < 3:
            inside = False
        elif cells[1].strip() == MESSAGES_HEAD:
            inside = True
        elif inside:
            yield from ((number, message) for message in re.findall(r"`([^`]+)`", cells[1]))


def explained(path, text):
    """Each explained message must be the begin of a message in the sources. MESSAGES_PAGE must explain every error and warning."""
    known = {message: level for level, _, message in messages()}
    told = list(explanations(text))
    for number, message in told:
        if not any(one.startswith(message) for one in known):
            yield number, f"no source logs `{message}`: correct the row or remove it"
    for one, level in known.items() if path == MESSAGES_PAGE else ():
        if level in ("error", "warn") and not any(one.startswith(message) for _, message in told):
            yield 1, f"explains no message `{one}`: add it to a table"


@functools.lru_cache
def tree():
    roots = [pathlib.Path(name) for name in ("sidecar", "tests", "sql", "build/gen")]
    return [f"/{path}" for root in roots for path in root.rglob("*.*")]


def files(_, text):
    """Each named C, Lua, Python or SQL file must exist, except files of users and files below lib/, which are Bull's."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"`([\w/]+\.(?:c|h|lua|py|sql))`", line):
            foreign = name.startswith("lib/") or name in USERS_FILES or re.search("NAME|NNN", name)
            if not foreign and not any(path.endswith("/" + name) for path in tree()):
                yield number, f"there is no file {name}"


@functools.lru_cache
def code():
    return "\n".join(text for pattern in ("*.c", "*.h", "*.lua") for _, text in sources(pattern))


def functions(path, text):
    """Each function that a page names as `name()` must exist."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"`(\w+)\(\)`", line):
            if not re.search(rf"\b{name}\(", code()):
                yield number, f"no source has a function {name}()"


@functools.lru_cache
def key_words():
    """Words of the config's keys with the first key of each: `tls` is of `tls` and `tls_min`."""
    words = {}
    for _, name, *_ in rows("keys"):
        for word in name.split("_"):
            words.setdefault(word, name)
        words[name] = name
    return words


def absences(path, text):
    """A sentence must not say that something is missing in this version, if a key of the config has its name."""
    if path.name == "CHANGELOG.md":
        return
    for number, line in enumerate(text.splitlines(), 1):
        missing = re.search(r"not (?:in|part of) this version|later version|not (?:yet )?supported|not implemented", line)
        named = [key_words()[word] for word in re.findall(r"\w+", line.lower()) if word in key_words()] if missing else []
        if named:
            yield number, f'says "{missing[0]}", but the config has the key `{named[0]}`: correct the sentence'


def release():
    """The changelog and the manifests must name the version that the Makefile builds. A release leaves nothing OPEN."""
    makefile = pathlib.Path("Makefile").read_text()
    version, day = (re.search(rf"^{name} := (\S+)$", makefile, re.M)[1] for name in ("VERSION", "RELEASED"))
    headings = re.findall(r"^## (.*)$", pathlib.Path("CHANGELOG.md").read_text(), re.M)
    between = version.endswith("-dev") and headings[:1] == ["Unreleased"] and headings[1:2]
    if between and not between[0].endswith(f"({day})"):
        yield f"CHANGELOG.md:1: its newest release is not of {day}, which RELEASED of the Makefile says"
    if not between and headings[:1] != [f"{version} ({day})"]:
        yield f"CHANGELOG.md:1: its newest release is not {version} ({day}), which VERSION and RELEASED of the Makefile say"
    for place, word, what in OPEN:
        if not version.endswith("-dev") and word in pathlib.Path(place).read_text():
            yield f"{place}:1: says {word}: a release must say {what}"
    for path in sorted(pathlib.Path("deploy").rglob("*")):
        text = path.read_text(errors="replace") if path.is_file() else "" # charts that Helm has fetched are no text
        for tag in re.finditer(r"(?:queue-sidecar:|newTag: |ARG VERSION=|^appVersion: |name: queue-sidecar(?:-lib)?\n(?:.*\n){0,2} *version: )(\d+\.\d[\w.-]*)", text, re.M):
            if tag[1] != version:
                yield f"{path}:{text.count(chr(10), 0, tag.start()) + 1}: names {tag[1]}, but the Makefile builds {version}"


def check():
    found = [*release(), *alerts()]
    for path in documents():
        text = path.read_text()
        for look in (blocks, widths, links, explained, files, functions, absences):
            found += [f"{path}:{number}: {what}" for number, what in look(path, text)]
    if not found:
        print(f"ok   docs: {len(documents())} pages")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def write():
    for path in documents():
        text = path.read_text()
        fresh = BLOCK.sub(generated, text)
        if fresh != text:
            path.write_text(fresh)
            print(path)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["--write"], ["--check"]):
        sys.exit("usage: python3 tests/check/docs.py --write | --check")
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    sys.exit(write() if sys.argv[1] == "--write" else check())
