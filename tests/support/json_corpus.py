#!/usr/bin/env python3
"""Random JSON texts, good ones and broken ones, with the answers of Python's json module: json_corpus.py SEED COUNT FILE.

The answers are made as strict as base/json: no NaN, no Infinity, UTF-8 only, its bounds of bytes, tokens and depth, and JSON_BAD
where a key on the path occurs twice. FILE is a sequence of records; unit_json_python.c reads them:

    text (u32 length, bytes), u8 good, u8 pointers, and for each: pointer (u16 length, bytes), u8 found, u8 type, u8 how,
    value (u32 length, bytes)         how: 0 no value is compared, 1 the raw bytes, 2 decoded, 3 it cannot be decoded
"""
import json
import random
import struct
import sys

MAX_BYTES, MAX_TOKENS, MAX_DEPTH = 64 * 1024, 4096, 64
FOUND, MISSING, BAD = 0, 1, 2
STRING, NUMBER, BOOL, NULL, OBJECT, ARRAY = range(6)
KEYS = ["a", "b", "id", "", "~", "/", "m~n", "~1", "0", "1", "é", "\u0000", "\U0001f600", "\ud800", "a b", '"', "\\", "-"]
LETTERS = "abc 019é€\U0001f600\"\\/\b\f\n\r\t\u0001\u007f\ud83d\ude00"
PIECES = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\n", b"\0", b"0", b"1", b"-", b"+", b".", b"e", b"E", b"\x80", b"\xff",
          b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\x0b", b"\x0c", b"\x1f", b"\\u", b"\\ud800", b"\\udc00",
          b"\\u00e9", b"\\x", b"NaN", b"Infinity", b"-Infinity", b"true", b"nul", b"01", b"1.", b".5", b"-", b"1e", b"//", b"/**/", b"'",
          b"\"a\":", b",,", b"{}", b"[]"]
NUMBERS = ["0", "-0", "1", "42", "-7", "1.5", "1e5", "1E+5", "1e-05", "0.10", "9" * 30, "-0.0e0", "1e999"]


class Number(str):
    pass


class Object(list):
    pass


def refuse(name):
    raise ValueError(name)


class Maker:
    def __init__(self, rnd):
        self.rnd = rnd

    def space(self):
        return self.rnd.choice(["", "", "", "", " ", "\n", "\t\r ", "  "])

    def string(self, text):
        out = []
        for letter in text:
            point = ord(letter)
            must = letter in '"\\' or point < 0x20 or 0xD800 <= point <= 0xDFFF
            if not must and self.rnd.random() < 0.85:
                out.append(letter)
            elif letter in '"\\/' and self.rnd.random() < 0.7:
                out.append("\\" + letter)
            elif letter in "\b\f\n\r\t" and self.rnd.random() < 0.7:
                out.append("\\" + "bfnrt"["\b\f\n\r\t".index(letter)])
            else:
                units = letter.encode("utf-16-be", "surrogatepass")
                for i in range(0, len(units), 2):
                    digits = units[i:i + 2].hex()
                    out.append("\\u" + (digits.upper() if self.rnd.random() < 0.5 else digits))
        return '"' + "".join(out) + '"'

    def scalar(self):
        kind = self.rnd.random()
        if kind < 0.45:
            return self.string("".join(self.rnd.choice(LETTERS) for _ in range(self.rnd.randrange(8))))
        if kind < 0.8:
            return self.rnd.choice(NUMBERS)
        return self.rnd.choice(["true", "false", "null"])

    def value(self, depth):
        kind = self.rnd.random()
        if depth == 0 or kind < 0.35:
            return self.space() + self.scalar() + self.space()
        count = self.rnd.randrange(5)
        if kind < 0.55:
            body = ",".join(self.value(depth - 1) for _ in range(count))
            return self.space() + "[" + (body or self.space()) + "]" + self.space()
        keys = self.rnd.sample(KEYS, count)
        if count > 1 and self.rnd.random() < 0.2:
            keys[-1] = keys[0]
        body = ",".join(self.space() + self.string(key) + self.space() + ":" + self.value(depth - 1) for key in keys)
        return self.space() + "{" + (body or self.space()) + "}" + self.space()

    def wrap(self, text, times):
        left, right = [], []
        for _ in range(times):
            if self.rnd.random() < 0.5:
                left.append("[")
                right.append("]")
            else:
                left.append(self.rnd.choice(['{"a":', '{"b":1,"a":']))
                right.append("}")
        return "".join(left) + text + "".join(reversed(right))

    def text(self):
        kind = self.rnd.random()
        text = self.value(self.rnd.choice([0, 1, 2, 3, 3, 4, 5]))
        if kind < 0.01:
            text = self.wrap(text, self.rnd.randrange(58, 70))
        elif kind < 0.012:
            text = "[" + ",".join(["1"] * self.rnd.randrange(4085, 4096)) + "," + text + "]"
        elif kind < 0.014:
            text = '{"pad":"' + "x" * (MAX_BYTES - len(text.encode()) - self.rnd.randrange(10, 25)) + '","a":' + text + "}"
        return text.encode()

    def broken(self, text):
        text = bytearray(text)
        for _ in range(self.rnd.choice([1, 1, 1, 2, 3])):
            at = self.rnd.randrange(len(text) + 1)
            to = min(len(text), at + self.rnd.choice([0, 1, 1, 2, 5]))
            kind = self.rnd.random()
            if kind < 0.3:
                del text[at:to]
            elif kind < 0.8:
                text[at:at if kind < 0.55 else to] = self.rnd.choice(PIECES)
            elif kind < 0.9:
                text[at:at] = text[at:to] or b" "
            else:
                del text[at:]
        return bytes(text)


def measure(value):
    """Tokens and depth of a parsed text."""
    tokens, deepest, stack = 0, 0, [(value, 1)]
    while stack:
        value, depth = stack.pop()
        tokens += 1
        if isinstance(value, list):
            deepest = max(deepest, depth)
            if isinstance(value, Object):
                tokens += len(value)
                stack += [(inner, depth + 1) for _, inner in value]
            else:
                stack += [(inner, depth + 1) for inner in value]
    return tokens, deepest


def loads(text):
    """Keeps numbers as they are written, and objects as lists of pairs."""
    return json.loads(text.decode("utf-8"), object_pairs_hook=Object, parse_int=Number, parse_float=Number, parse_constant=refuse)


def parse(text):
    """(good, value)"""
    if len(text) > MAX_BYTES:
        return False, None
    try:
        value = loads(text)
    except (ValueError, RecursionError):
        return False, None
    tokens, depth = measure(value)
    return tokens <= MAX_TOKENS and depth <= MAX_DEPTH, value


def find(value, segments):
    """(found, value)"""
    for segment in segments:
        if isinstance(value, Object):
            hits = [inner for key, inner in value if key == segment]
            if len(hits) != 1:
                return (BAD if hits else MISSING), None
            value = hits[0]
        elif isinstance(value, list):
            if not (segment.isascii() and segment.isdigit() and str(int(segment)) == segment and int(segment) < len(value)):
                return MISSING, None
            value = value[int(segment)]
        else:
            return MISSING, None
    return FOUND, value


def answer(value):
    """(type, how, bytes)"""
    if isinstance(value, Object):
        return OBJECT, 0, b""
    if isinstance(value, list):
        return ARRAY, 0, b""
    if isinstance(value, Number):
        return NUMBER, 1, value.encode()
    if isinstance(value, str):
        try:
            return STRING, 2, value.encode("utf-8")
        except UnicodeEncodeError:
            return STRING, 3, b""
    if value is None:
        return NULL, 1, b"null"
    return BOOL, 1, b"true" if value else b"false"


def speakable(key):
    """Whether a pointer, a C string of UTF-8, can hold the key."""
    return "\0" not in key and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in key)


def path(rnd, value):
    """Returns a path into the value; sometimes it leads to no value."""
    segments = []
    while isinstance(value, list) and value and rnd.random() < 0.9:
        index = rnd.randrange(len(value))
        key = str(index)
        if isinstance(value, Object):
            key, value = value[index]
        else:
            value = value[index]
        if not speakable(key):
            break
        segments.append(key)
    if rnd.random() < 0.25:
        segments.append(rnd.choice(["a", "id", "0", "00", "-", "~", "/", "", "99999999999", "1 "]))
    return segments


def record(rnd, text):
    good, value = parse(text)
    out = [struct.pack("<I", len(text)), text]
    ways = [[]] + [path(rnd, value) if good else [rnd.choice(["a", "id", "0"])] for _ in range(rnd.randrange(4))]
    out.append(struct.pack("<BB", good, len(ways)))
    for segments in ways:
        pointer = "".join("/" + s.replace("~", "~0").replace("/", "~1") for s in segments).encode()
        found, hit = find(value, segments) if good else (BAD, None)
        kind, how, raw = answer(hit) if found == FOUND else (0, 0, b"")
        out.append(struct.pack("<H", len(pointer)) + pointer + struct.pack("<BBBI", found, kind, how, len(raw)) + raw)
    return b"".join(out)


def main():
    seed, count, name = sys.argv[1:]
    rnd = random.Random(seed)
    maker = Maker(rnd)
    with open(name, "wb") as file:
        for _ in range(int(count)):
            text = maker.text()
            file.write(record(rnd, text if rnd.random() < 0.5 else maker.broken(text)))


if __name__ == "__main__":
    main()
