#!/usr/bin/env python3
"""Compares every Lua script with its header, its C caller and the rights in docs/acl.md.

A wrong header is worse than none: the C side is written from its KEYS and ARGV. Operators copy the ACL line.
"""
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path("sidecar")
SECTION, SENTINEL_SECTION = "Least privilege", "Sentinel"
ENTRY = re.compile(r"^-- (KEYS|ARGV)\[(\d+)(\+?)\]\s+\S")
# Commands with a subcommand: the right is `command|subcommand`.
CONTAINERS = {"sentinel", "client", "cluster", "pubsub", "script", "xinfo", "config", "acl", "object", "memory", "function"}
READS = set("""exists get getrange hexists hget hgetall hlen hmget hscan hstrlen info lindex llen lpos lrange mget pttl scard select sismember smembers sscan
    strlen time ttl type xinfo xlen xpending xrange xrevrange zcard zcount zmscore zrange zrangebyscore zrank
    zrevrangebyscore zscan zscore""".split())

# These scripts act for people, or store what a full Redis can go without. They have no flag allow-oom, so a full Redis refuses
# them before they run.
REFUSED_WHEN_FULL = {"requeue", "bull_requeue", "bullmq_requeue", "sidekiq_requeue", "delayed_requeue", "stream_requeue", "jobs_run", "jobs_cancel", "history", "erase"}

# This script, and this call of prologue/rights.lua, try commands by name. The rights are checked in the scripts that need them.
PROBE = "probe"
TRIAL = "redis.pcall(command, scratch"

offences = []


def offence(path, line, text):
    offences.append(f"{path}:{line}: {text}")


class Header:
    """The comment block below the shebang: how many KEYS and ARGV there are, and whether more may follow the last."""

    def __init__(self, path, lines):
        self.highest = {"KEYS": 0, "ARGV": 0}
        self.open = {"KEYS": False, "ARGV": False}
        self.fixed = {"KEYS": 0, "ARGV": 0}
        if not (len(lines) > 1 and re.match(rf"-- {path.stem}: \S", lines[1])):
            offence(path, 2, f"the header begins with `-- {path.stem}: what it does`")
        block = []
        for line in lines[1:]:
            if not line.startswith("--"):
                break
            block.append(line)
        for number, line in enumerate(block, 2):
            if match := ENTRY.match(line):
                self.add(path, number, match[1], int(match[2]), bool(match[3]))
        self.optional = {word.lower() for line in block if line.startswith("-- Optional") for word in re.findall(r"[A-Z]{2,}", line)}
        for word in ("Reply", "Safe"):
            if not any(re.match(rf"-- {word}\s+\S", line) for line in block):
                offence(path, 2, f"the header has no `-- {word}` line")
        if not self.highest["KEYS"]:
            offence(path, 2, "the header documents no KEYS")
        self.length = len(block) + 1

    def add(self, path, number, kind, index, more):
        if index != self.highest[kind] + 1:
            offence(path, number, f"{kind}[{index}] does not follow {kind}[{self.highest[kind]}]")
        self.highest[kind] = index
        self.open[kind] = more
        self.fixed[kind] = index - 1 if more else index


def without_comments(line):
    """The code of one line. No script has a string with `--`."""
    return line.split("--", 1)[0]


def check_indexes(path, header, code):
    for kind in ("KEYS", "ARGV"):
        used = {}
        rest = None  # the index from which the code uses all entries
        for number, text in code:
            for match in re.finditer(rf"\b{kind}\[(\d+)\]", text):
                used.setdefault(int(match[1]), number)
            for match in re.finditer(rf"unpack\({kind}(?:,\s*(\d+))?\)|for \w+ = (\d+), #{kind}\b|ipairs\(({kind})\)", text):
                rest = int(match[1] or match[2] or 1)
                used.setdefault(rest, number)
            for match in re.finditer(rf"\b{kind}\[[a-z]", text):
                rest = rest or header.highest[kind]
                used.setdefault(header.highest[kind], number)
        highest = max(used, default=0)
        if highest > header.highest[kind]:
            offence(path, used[highest], f"uses {kind}[{highest}], which the header does not document")
        if highest < header.highest[kind]:
            offence(path, 2, f"the header documents {kind}[{header.highest[kind]}], which the code does not use")
        if rest and not header.open[kind]:
            offence(path, used.get(rest, 2), f"uses all {kind} from {rest} on; document that as {kind}[{rest}+]")
        if header.open[kind] and not rest:
            offence(path, 2, f"the header documents {kind}[{header.highest[kind]}+], but the code does not use all of them")


def check_commands(path, shebang, optional, code, rights):
    called = {}
    for number, text in code:
        for match in re.finditer(r"redis\.p?call\(\s*('(\w+)')?(?:,\s*'(\w+)')?", text):
            if not match[1] and path.stem != PROBE and TRIAL not in text:
                offence(path, number, "calls a command whose name is no literal: its rights cannot be checked")
            if not match[1]:
                continue
            command = match[2].lower()
            called.setdefault(command, number)
            right = f"{command}|{match[3].lower()}" if command in CONTAINERS and match[3] else command
            check_right(path, number, right, rights)
    for command in optional - set(called):
        offence(path, 2, f"the header calls {command.upper()} optional, but the code does not call it")
    writes = [command for command in called if command not in READS]
    wanted = "#!lua flags=allow-oom" if writes else "#!lua flags=no-writes"
    if path.stem in REFUSED_WHEN_FULL:
        wanted = "#!lua"
    if shebang != wanted:
        why = f"it calls {writes[0].upper()}" if writes else "it only reads"
        offence(path, 1, f"the first line must be `{wanted}`: {why}")


def check_right(path, line, right, rights):
    if rights is not None and right not in rights and right.split("|")[0] not in rights:
        offence(path, line, f"calls {right.upper().replace('|', ' ')}, but the ACL line in docs/acl.md lacks +{right}")


def read_rights(title):
    """The +commands of all ACL lines in fenced blocks of this section of docs/acl.md: the first line is for all queues, each other line
    adds rights for a dialect. None = there is no such block."""
    page = pathlib.Path("docs/acl.md")
    text = page.read_text() if page.exists() else ""
    section = re.search(rf"^#+ {title}\b.*?\n(.*?)(?=^#+ |\Z)", text, re.M | re.S | re.I)
    blocks = re.findall(r"^ *```.*?\n(.*?)^ *```", section[1] if section else "", re.M | re.S)
    lines = [block for block in blocks if "ACL SETUSER" in block]
    if lines:
        return set(re.findall(r"(?<=\s)\+([a-z|-]+)", "".join(lines)))
    offence("docs/acl.md", 1, f'has no fenced block with ACL SETUSER in a section "{title}": publish the rights that the scripts need')
    return None


def uses(path, lines):
    """The code of the prologue files that the build joins to a script. The script, or one of them, must call each of them."""
    code, parts_used = [], []
    for line in lines:
        for name in re.findall(r"\w+", line[9:]) if line.startswith("-- Uses ") else ():
            own = path.parent / f"prologue/{name}.lua"
            parts = [own] if own.exists() else list(TOP.rglob(f"prologue/{name}.lua"))
            if len(parts) != 1:
                offence(path, 1, f"there are {len(parts)} files prologue/{name}.lua")
                continue
            part = parts[0]
            parts_used.append(part)
            code += [(1, without_comments(text)) for text in part.read_text().splitlines()]
    callers = "\n".join(lines + [text for _, text in code])
    for part in parts_used:
        functions = re.findall(r"^local function (\w+)", part.read_text(), re.M)
        if not any(re.search(rf"(?<!function )\b{function}\(", callers) for function in functions):
            offence(path, 1, f"uses {part.stem}, and calls none of {', '.join(functions)}")
    return code


def check_syntax(path, lines):
    """luac does not know a shebang with flags. An empty line in its place keeps the line numbers."""
    source = "\n".join([""] + lines[1:])
    done = subprocess.run(["luac5.1", "-p", "-"], input=source, text=True, capture_output=True)
    if done.returncode:
        match = re.search(r"stdin:(\d+): (.*)", done.stderr)
        offence(path, match[1] if match else 1, match[2] if match else done.stderr.strip())


# Names that Lua and Redis define. Redis refuses a script that reads another global name, but only when it gets there.
GLOBALS = set("KEYS ARGV redis cjson struct string math table ipairs next pairs pcall tonumber tostring type unpack rawget setmetatable _G".split())


def check_globals(path):
    """As Redis gets the script, with its parts of the prologue."""
    joined = subprocess.run(["sh", "sidecar/queue/lua/embed.sh", "--join", path], text=True, capture_output=True, check=True).stdout
    listing = subprocess.run(["luac5.1", "-l", "-p", "-"], input="\n" + joined.split("\n", 1)[1], text=True, capture_output=True).stdout
    for name in sorted(set(re.findall(r"[GS]ETGLOBAL.*; (\w+)", listing)) - GLOBALS):
        offence(path, 1, f"uses the global name {name}")


def check_proofs(path, code):
    """A script proves each call that follows its first write: docs/internals.md, rules for scripts. Calls of a prologue and calls by
    pcall are left to the test redis_withdrawn_rights."""
    proof = next((number for number, text in code if "missing_right(" in text), None)
    proven = {match for _, text in code for match in re.findall(r"(?<!call\()'([A-Z]+)'", text)}
    before, writes = set(), []
    for number, text in code:
        for command, key in re.findall(r"redis\.call\('([A-Z]+)',?\s*([^,)]*)", text):
            reads = command.lower() in READS
            writes += [] if reads else [number]
            if not proof or (reads and not writes) or number < proof:
                before.add((command, key))
            elif command not in proven | {"TIME", "TYPE"} and (command, key) not in before:
                offence(path, number, f"calls {command} after missing_right(), which does not prove it")
    if not proof and len(writes) > 1 and path.stem != PROBE:
        offence(path, writes[1], "writes twice without missing_right(): a missing right would undo only a part")


def check_callers(headers):
    """request_script(conn, &script_x, n), or call_script and lock_begin, which add the lock: n and the number of arguments must match the header."""
    for path in sorted(TOP.rglob("*.c")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            match = re.search(r"(?:request_script|call_script|lock_begin)\(&?\w+(?:\.\w+)*(?:->\w+)*, &script_(\w+), (.*)\);", line)
            if not match or match[1] not in headers:
                continue
            header = headers[match[1]]
            constant = re.match(r"(?:\(int\))?\(?(\d+)( \+|\)|$)", match[2])
            if constant and int(constant[1]) != header.fixed["KEYS"]:
                offence(path, number, f"passes {constant[1]} KEYS to {match[1]}.lua, whose header has {header.fixed['KEYS']}")
            given = 0 if "request_script" in line else 1  # the lock
            check_arguments(path, number, match[1], header, given, lines[number:])


def count_arguments(text):
    """The number of arguments that the request_* calls in `text` add: each one of request_text and request_int, and one for request_bytes."""
    count = 0
    for match in re.finditer(r"\brequest_(text|int|bytes)\(", text):
        depth, commas, rest = 1, 0, re.sub(r'"(?:[^"\\]|\\.)*"', '""', text[match.end():])
        for letter in rest:
            depth += (letter in "([{") - (letter in ")]}")
            commas += letter == "," and depth == 1
            if depth == 0:
                break
        count += 1 if match[1] == "bytes" else commas
    return count


def check_arguments(path, number, name, header, given, following):
    body = []
    for line in following:
        if re.search(r"request_(end|ask)\(|call_ask\(|lock_ask_number\(", line) or line == "}":
            break
        if re.search(r"\b(for|while|if|switch) \(", line) or re.search(r"\b(?!request_|call_)\w+\((conn|call)\b(?!->)", line):
            return  # a loop, a condition or another function may add an unknown number
        body.append(line)
    given += count_arguments("\n".join(body))
    wanted = header.highest["KEYS"] + header.highest["ARGV"]
    if given != wanted and not header.open["KEYS"] and not header.open["ARGV"]:
        offence(path, number, f"passes {given} KEYS and ARGV to {name}.lua, whose header has {wanted}")


def check_requests(rights):
    """Checks the rights of the commands that C sends without a script. Sentinels have an ACL line of their own."""
    of_sentinels = read_rights(SENTINEL_SECTION)
    for path in sorted(TOP.rglob("*.c")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not (match := re.search(r'request_(?:begin|append)\([\w.>-]+, "([A-Z]+)"(?:, "([A-Z-]+)")?', line)):
                continue
            command = match[1].lower()
            if command in CONTAINERS:
                command += "|" + match[2].lower() if match[2] else ""
            check_right(path, number, command, of_sentinels if path.parent.name == "sentinel" else rights)


def main():
    rights = read_rights(SECTION)
    headers = {}
    for path in sorted(TOP.rglob("*.lua")):
        if path.parent.name == "prologue":
            continue
        lines = path.read_text().splitlines()
        header = headers[path.stem] = Header(path, lines)
        code = [(n, without_comments(text)) for n, text in enumerate(lines, 1) if n > header.length]
        check_syntax(path, lines)
        check_indexes(path, header, code)
        check_globals(path)
        check_proofs(path, code)
        check_commands(path, lines[0] if lines else "", header.optional, code + uses(path, lines), rights)
    check_callers(headers)
    check_requests(rights)
    print("\n".join(offences) if offences else f"ok   scripts: {len(headers)} scripts match their headers")
    return 1 if offences else 0


sys.exit(main())
