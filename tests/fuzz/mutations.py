"""What the fuzzers of models change: bytes, words, and values in JSON."""

from __future__ import annotations

import random
import struct
from typing import Any

NUMBERS = (-1, 0, 1, 2, 7, 255, 2**15, 2**16, 10**6, 10**9, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64)
VALUES = (
    *NUMBERS, -(2**31), -(2**63), 0.5, 1e308, -1e30, float("nan"), float("inf"), None, True, False, "", "x",
    "7", "-1", "1000000000", "1e400", "nan", "[1,2]", "a\x00b", [], {}, [1], [[]], {"a": 1}, [0] * 300,
)  # fmt: skip


def change_bytes(source: random.Random, content: bytes) -> bytes:
    """Flip, overwrite, cut, repeat or insert."""
    out = bytearray(content)
    for _ in range(source.choice((1, 1, 1, 2, 5))):
        if not out:
            break
        at = source.randrange(len(out))
        what = source.randrange(6)
        if what == 0:
            out[at] ^= 1 << source.randrange(8)
        elif what == 1:
            out[at] = source.randrange(256)
        elif what == 2:
            del out[at:]
        elif what == 3:
            out[at:at] = out[at : at + source.randrange(1, 60)]
        elif what == 4:
            out[at:at] = source.randbytes(source.randrange(1, 9))
        else:
            del out[at : at + source.randrange(1, 60)]
    return bytes(out)


def change_word(source: random.Random, content: bytes) -> bytes:
    """A number of 1 to 8 bytes becomes another, in either order of bytes."""
    out = bytearray(content)
    kind = source.choice("bBhHiIqQfd")
    order = source.choice("<>")
    size = struct.calcsize(kind)
    if len(out) < size + 8:
        return bytes(out)
    at = source.randrange(8, len(out) - size + 1)
    if source.random() < 0.7:
        at -= at % min(4, size)
    if kind in "fd":
        struct.pack_into(order + kind, out, at, source.choice((0.0, -1.0, 1e30, float("nan"), float("inf"))))
    else:
        wrapped = source.choice(NUMBERS) & (256**size - 1)
        struct.pack_into(order + kind.upper(), out, at, wrapped)
    return bytes(out)


def change_text(source: random.Random, content: bytes) -> bytes:
    """A word of a text becomes another, or a line goes, is doubled or moves."""
    lines = content.split(b"\n")
    at = source.randrange(len(lines))
    what = source.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(at, lines[source.randrange(len(lines))])
    else:
        words = lines[at].replace(b"=", b"= ").split(b" ")
        words[source.randrange(len(words))] = str(source.choice(VALUES)).encode()
        lines[at] = b" ".join(words).replace(b"= ", b"=")
    return b"\n".join(lines)


def change_value(source: random.Random, value: Any) -> Any:
    """One value inside lists and dicts becomes another, goes, is doubled or is renamed."""
    if isinstance(value, dict) and value and source.random() < 0.95:
        name = source.choice(sorted(value))
        what = source.random()
        if what < 0.05:
            return {key: each for key, each in value.items() if key != name}
        if what < 0.08:
            return {**{key: each for key, each in value.items() if key != name}, name + "x": value[name]}
        return {**value, name: change_value(source, value[name])}
    if isinstance(value, list) and value and source.random() < 0.9:
        at = source.randrange(len(value))
        what = source.random()
        if what < 0.07:
            return [*value[:at], *value[at + 1 :]]
        if what < 0.14:
            return [*value[:at], value[at], *value[at:]]
        return [*value[:at], change_value(source, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and value.isdigit() and source.random() < 0.7:
        return str(source.choice(NUMBERS))
    if isinstance(value, int) and source.random() < 0.7:
        return source.choice((*NUMBERS, value + 1, value - 1, value * 2, -value))
    return source.choice(VALUES)
