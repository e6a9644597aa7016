"""What a block of JSON lines holds, before Arrow parses it: how deep it is nested, and under which keys.

Arrow's parser calls itself for each bracket, so that one line of 10,000 of them ends the process; and it is
told which columns there are, for which a key must not be taken from what a user typed. One pass over the
bytes finds both: a key is a string in an object's key place, not a text that looks like one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from placings.core import AnyArray, find_limit

Path: TypeAlias = tuple[str, ...]  # the keys on the way to a value; lists in between are not counted

SMALL = 1 << 15  # bytes; below, the plain loop is done before numba is loaded
PARENT, START, LENGTH, VALUE, NEXT, INFO = range(6)  # what is kept of a key; INFO is their number
FINE, TOO_DEEP, TOO_MANY = range(3)
MOST_TRIES = 256  # keys with one slot; only keys made to collide have so many

_LOOPS: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Scan:
    """The keys of a block with the first byte of their first value (0: only nulls), and what stopped it.

    `stopped` is the name of a limit or "", `line` the line where it was reached, counted from 0.
    """

    keys: dict[Path, int]
    stopped: str
    line: int


def scan_block(block: bytes) -> Scan:
    """The keys in a block of whole lines; it ends early where a limit is reached.

    >>> scan_block(b'{"query": "results", "n": [{"k": 1}]}').keys
    {('query',): 34, ('n',): 91, ('n', 'k'): 49}
    """
    deepest, most = find_limit("depth"), find_limit("fields")
    table = np.zeros((most + 1, INFO), dtype=np.int64)
    slots = np.full(1 << (2 * most).bit_length(), -1, dtype=np.int64)
    stack = np.zeros((deepest + 2, 2), dtype=np.int64)
    text: Any = block if len(block) < SMALL else np.frombuffer(block, dtype=np.uint8)
    loop = find_keys if len(block) < SMALL else _find_compiled()
    count, code, line = loop(text, table, slots, stack)
    names: list[Path] = []
    keys: dict[Path, int] = {}
    for parent, start, length, value, _ in table[:count].tolist():
        name = (*(names[parent] if parent >= 0 else ()), _decode(block[start : start + length]))
        names.append(name)
        keys[name] = keys.get(name) or value
    return Scan(keys, ("", "depth", "fields")[code], int(line))


def _find_compiled() -> Callable[..., Any]:
    if not _LOOPS:
        from placings.core import compiled  # numba takes half a second to load

        _LOOPS["keys"] = compiled(find_keys)
    return _LOOPS["keys"]


def _decode(raw: bytes) -> str:
    if b"\\" in raw:
        try:
            return str(json.loads(b'"' + raw + b'"'))
        except ValueError:
            pass  # Arrow refuses the line
    return raw.decode("utf-8", "replace")


def find_keys(text: AnyArray, table: AnyArray, slots: AnyArray, stack: AnyArray) -> tuple[int, int, int]:
    """Fill `table` `[key, info]` with the distinct keys of JSON text: their number, a code, and the line.

    `stack` `[depth, 2]` holds, for each open bracket, whether it is an object's, and the key that it is
    the value of. Text that is not JSON gives keys that mean nothing, and no error: the parser finds it.
    """
    size, deepest, most, mask = len(text), len(stack) - 2, len(table) - 1, len(slots) - 1
    depth, line, count, at = 0, 0, 0, 0
    key = -1  # the one whose value comes next
    last = most  # the key before; a row that no key has stands for none
    wanted = False  # a value of `key`: its first byte is kept
    named = False  # a key may come next
    while at < size:
        byte = text[at]
        if byte == 34:  # a string
            start = at + 1
            end = start
            while end < size and text[end] != 34 and text[end] != 10:
                end += 2 if text[end] == 92 else 1
            if named:
                parent, length = stack[depth, 1], end - start
                guess = table[last, 4]  # most lines name the same keys in the same order
                same = table[guess, 0] == parent and table[guess, 2] == length
                first = table[guess, 1]
                place = 0
                while same and place < length:
                    same = text[first + place] == text[start + place]
                    place += 1
                if not same:
                    mixed = (parent * 31 + length) & 0xFFFFFF
                    for place in range(start, min(end, size)):
                        mixed = ((mixed * 1_000_003) ^ text[place]) & 0xFFFFFFFF
                    slot = (mixed ^ (mixed >> 15)) & mask
                    tries = 0
                    while slots[slot] >= 0 and not same:
                        guess = slots[slot]
                        same = table[guess, 0] == parent and table[guess, 2] == length
                        first = table[guess, 1]
                        place = 0
                        while same and place < length:
                            same = text[first + place] == text[start + place]
                            place += 1
                        slot = (slot + 1) & mask
                        tries += 1
                        if tries == MOST_TRIES:
                            return count, TOO_MANY, line
                    if not same:
                        if end >= size:
                            return count, FINE, line
                        if count == most:
                            return count, TOO_MANY, line
                        guess = count
                        slots[slot] = guess
                        table[guess, 0] = parent
                        table[guess, 1] = start
                        table[guess, 2] = length
                        count += 1
                    table[last, 4] = guess
                key = last = guess
                named = False
            elif wanted:
                if table[key, 3] == 0:
                    table[key, 3] = 34
                wanted = False
            at = end if end < size and text[end] == 10 else end + 1
            continue
        if byte == 123 or byte == 91:  # an object or a list opens
            if wanted and table[key, 3] == 0:
                table[key, 3] = byte
            depth += 1
            if depth > deepest:
                return count, TOO_DEEP, line
            stack[depth, 0] = 1 if byte == 123 else 0
            stack[depth, 1] = key if depth > 1 else -1
            named = byte == 123
            wanted = False
        elif byte == 125 or byte == 93:
            depth = max(depth - 1, 0)
            key = stack[depth + 1, 1]
            named = wanted = False
        elif byte == 44:  # a comma
            named = stack[depth, 0] == 1 and depth > 0
            if depth > 0 and not named:
                key = stack[depth, 1]
            wanted = False
        elif byte == 58:  # a colon
            wanted = key >= 0
        elif byte == 10:
            line += 1
        elif wanted and byte > 32:
            if table[key, 3] == 0 and byte != 110:  # null says nothing
                table[key, 3] = byte
            wanted = False
        at += 1
    return count, FINE, line
