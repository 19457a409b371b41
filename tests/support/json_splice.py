#!/usr/bin/env python3
"""Makes random documents for json_pick, and judges its answers by Python's json module.

    json_splice.py make SEED COUNT FILE     writes documents, the values wanted of each, and their replacements
    json_splice.py judge FILE ANSWERS       prints one line, or the first document with a wrong answer

FILE is a sequence of records; unit_json_documents.c reads them and writes ANSWERS (numbers are little-endian, "bytes" has a u32 length):

    document bytes, u8 wanted, and for each: u8 whether it has an outer key, outer bytes, key bytes, bytes for the inside of a
    string, bytes for any other scalar
    answer: u8 good, and then for each: u8 found (1) or missing (0), u8 type, u32 place, u32 length; after bytes

Every scalar that was found is replaced. The document must then be the old one with these values changed: Python parses both, keeps
numbers as they are written and duplicate keys, and compares; and each byte outside of the named places must be the same. A document
must be refused exactly when Python refuses it, or when it is no object, deeper than 64, or a wanted key occurs twice.
"""
import random
import re
import struct
import sys

import json_corpus
from json_corpus import MAX_DEPTH, Number, Object, OBJECT, ARRAY, STRING

NAMES = ["a", "b", "id", "", "0", "1", "~", "a b", '"', "\\", "retry", "state", "queue", "taskStatus", "attempt", "payload"]
NUMBERS = json_corpus.NUMBERS + ["1e400", "-1E-400", "1" + "0" * 308, "-" + "7" * 400, "0." + "3" * 60, "9223372036854775808"]
TEXTS = ["", "retry", "normal", "x" * 40, "\u00e9\u20ac", "\U0001f600", 'quote " and \\', "\n\t\x01", "/", "\ud800"]


class Maker(json_corpus.Maker):
    def scalar(self):
        return self.rnd.choice(NUMBERS) if self.rnd.random() < 0.3 else super().scalar()

    def deep(self):
        return self.wrap(self.value(1), self.rnd.choice([3, 30, 58, 59, 60, 61, 62, 63, 64, 70]))

    def long(self):
        size = self.rnd.choice([1000, 70_000, 300_000])
        part = self.value(2)
        if self.rnd.random() < 0.5:
            return self.string("".join(self.rnd.choice(json_corpus.LETTERS) for _ in range(200))[:-1])[:-1] + "y" * size + '"'
        return "[" + ",".join([part] * (size // (len(part) + 1) + 1)) + "]"

    def object(self, depth):
        """Returns (text, keys). The keys mostly differ; a duplicate key is often spelled differently."""
        keys = self.rnd.sample(NAMES, self.rnd.randrange(7)) + self.rnd.sample(json_corpus.KEYS, self.rnd.randrange(3))
        if keys and self.rnd.random() < 0.07:
            keys.append(self.rnd.choice(keys))
        self.rnd.shuffle(keys)
        members, inner = [], []
        for key in keys:
            if depth and self.rnd.random() < 0.4:
                value, names = self.object(depth - 1)
                inner += [(key, name) for name in names]
            else:
                kind = self.rnd.random()
                value = self.value(2) if kind < 0.98 else self.deep() if kind < 0.999 else self.long()
            members.append(self.space() + self.string(key) + self.space() + ":" + self.space() + value + self.space())
        text = "{" + (",".join(members) or self.space()) + "}"
        return text, keys + inner

    def document(self):
        """Returns (bytes, ways); a way is a key or a pair of keys."""
        kind = self.rnd.random()
        if kind < 0.02:
            text, ways = self.value(3), []
        elif kind < 0.3:
            text, ways = self.task()
        else:
            text, ways = self.object(1)
        text = (self.space() + text + self.space()).encode()
        return (self.broken(text) if self.rnd.random() < 0.2 else text), ways

    def task(self):
        """A document as producers of KMQueue or delayedQueue write it, with the members in any order."""
        data = self.string("".join(self.rnd.choice(json_corpus.LETTERS) for _ in range(self.rnd.randrange(40))))
        if self.rnd.random() < 0.5:
            status = [("excTimestamp", "1700000000123"), ("retry", str(self.rnd.randrange(4))), ("state", '"normal"')]
            self.rnd.shuffle(status)
            inner = "{" + ",".join(self.string(key) + ":" + value for key, value in status) + "}"
            members = [("data", data), ("id", '"7"'), ("queue", '"q"'), ("taskStatus", inner), ("unique", "true")]
            ways = ["data", "id", "queue"] + [("taskStatus", key) for key, _ in status]
        else:
            payload = self.wrap('{"attempt":7,"data":' + data + "}", self.rnd.randrange(4))
            members = [("payload", payload), ("type", '"a.B"'), ("attempt", str(self.rnd.randrange(1, 70))), ("logContext", "{}")]
            ways = ["type", "attempt", "logContext", ("payload", "attempt")]
        if self.rnd.random() < 0.5:
            self.rnd.shuffle(members)
        return "{" + ",".join(self.string(key) + ":" + value for key, value in members) + "}", ways


def askable(way):
    """Whether the test can ask for it: as C strings, in ASCII."""
    return all(name.isascii() and "\0" not in name for name in ([way] if isinstance(way, str) else way))


def packed(data):
    return struct.pack("<I", len(data)) + data


def make(seed, count, name):
    rnd = random.Random(seed)
    maker = Maker(rnd)
    with open(name, "wb") as file:
        for _ in range(count):
            text, ways = maker.document()
            ways = list(dict.fromkeys(way for way in ways if askable(way)))
            wanted = rnd.sample(ways, min(len(ways), rnd.randrange(1, 6)))
            if rnd.random() < 0.3:
                other = rnd.choice(NAMES) if rnd.random() < 0.5 else (rnd.choice(NAMES), rnd.choice(NAMES))
                wanted += [other] if other not in wanted else []
            out = [packed(text), struct.pack("<B", len(wanted))]
            for way in wanted:
                outer, key = (None, way) if isinstance(way, str) else way
                out.append(struct.pack("<B", outer is not None) + packed((outer or "").encode()) + packed(key.encode()))
                out.append(packed(maker.string(rnd.choice(TEXTS))[1:-1].encode()) + packed(maker.scalar().encode()))
            file.write(b"".join(out))


class Reader:
    def __init__(self, name):
        with open(name, "rb") as file:
            self.data = file.read()
        self.at = 0

    def number(self, width=1):
        self.at += width
        return int.from_bytes(self.data[self.at - width:self.at], "little")

    def bytes(self):
        size = self.number(4)
        self.at += size
        return self.data[self.at - size:self.at]

    def ended(self):
        return self.at == len(self.data)


def count_of(value, key):
    return sum(name == key for name, _ in value) if isinstance(value, Object) else 0


def member(value, key):
    """Returns the place of the key in the object, or None."""
    return next((i for i, (name, _) in enumerate(value) if name == key), None) if isinstance(value, Object) else None


def parse(text):
    """Returns (good, value), without the bounds of bytes and tokens."""
    try:
        value = json_corpus.loads(text)
    except (ValueError, RecursionError):
        return False, None
    return json_corpus.measure(value)[1] <= MAX_DEPTH, value


def is_clear(value, wanted):
    """Whether no wanted key occurs twice."""
    for outer, key, _, _ in wanted:
        if outer is None:
            if count_of(value, key) > 1:
                return False
            continue
        if count_of(value, outer) > 1:
            return False
        at = member(value, outer)
        if at is not None and count_of(value[at][1], key) > 1:
            return False
    return True


def is_array(value):
    return isinstance(value, list) and not isinstance(value, Object)


def lookup(value, outer, key):
    """Returns (object or array, place in it), or None."""
    if outer is not None:
        at = member(value, outer)
        if at is None:
            return None
        value = value[at][1]
    if is_array(value):
        at = int(key) if re.fullmatch("0|[1-9][0-9]{0,8}", key) and int(key) < len(value) else None
    else:
        at = member(value, key)
    return None if at is None else (value, at)


def content(holder, at):
    return holder[at] if is_array(holder) else holder[at][1]


def replace(value, wanted):
    """Changes the scalars in the parsed document. Returns [(found, type, bytes to put there or None)] as they were before."""
    hits = []
    for outer, key, inside, other in wanted:
        place = lookup(value, outer, key)
        kind = json_corpus.answer(content(*place))[0] if place else 0
        with_ = None if not place or kind in (OBJECT, ARRAY) else inside if kind == STRING else other
        hits.append((place, kind, with_))
    for place, kind, with_ in hits:
        if with_ is not None:
            holder, at = place
            new = json_corpus.loads(b'"' + with_ + b'"' if kind == STRING else with_)
            holder[at] = new if is_array(holder) else (holder[at][0], new)
    return [(place is not None, kind, with_) for place, kind, with_ in hits]


def complaint(text, wanted, answers):
    """Returns what is wrong with the answer to one document, or None; whether Python accepts it; how many values were replaced."""
    good, value = parse(text)
    expected = good and isinstance(value, Object) and is_clear(value, wanted)
    if answers.number() != expected:
        return ("it is " + ("good" if expected else "bad or has a wanted key twice")), good, 0
    if not expected:
        return None, good, 0
    cuts = []
    for found, kind, with_ in replace(value, wanted):
        said = (answers.number() == 1, answers.number(), answers.number(4), answers.number(4))
        if said[0] != found or (found and said[1] != kind):
            return f"found {found}, type {kind}, and not {said}", True, 0
        if with_ is not None:
            cuts.append((said[2], said[3], with_))
    after = answers.bytes()
    copy, end = [], 0
    for at, size, with_ in sorted(cuts):
        copy += [text[end:at], with_]
        end = at + size
    if b"".join(copy) + text[end:] != after:
        return f"bytes outside of {cuts} changed:\n{after!r}", True, 0
    good, changed = parse(after)
    if not good or changed != value or type(changed) is not type(value):
        return f"it is now another document:\n{after!r}", True, 0
    return None, True, len(cuts)


def judge(name, answer_name):
    file, answers = Reader(name), Reader(answer_name)
    count = bad = doubled = spliced = 0
    while not file.ended():
        text = file.bytes()
        wanted = []
        for _ in range(file.number()):
            has_outer, outer = file.number(), file.bytes().decode()
            wanted.append((outer if has_outer else None, file.bytes().decode(), file.bytes(), file.bytes()))
        start = answers.at
        wrong, good, cuts = complaint(text, wanted, answers)
        if wrong:
            sys.exit(f"document {count}, wanted {[way[:2] for way in wanted]}: {wrong}\n{text[:5000]!r}")
        bad += not good
        doubled += good and not answers.data[start]
        spliced += cuts
        count += 1
    if not answers.ended():
        sys.exit("there are more answers than documents")
    if not (count < 30 * bad < 10 * count < 20 * spliced and count < 100 * doubled):
        sys.exit(f"a poor mixture: {count} documents, {bad} bad, {doubled} refused otherwise, {spliced} values replaced")
    print(f"{count} documents, {bad} bad, {doubled} refused otherwise, {spliced} values replaced")


def main():
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        judge(sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
