"""JSON and YAML of configurations: random bytes, deep nesting, aliases, other encodings."""

from __future__ import annotations

import random
from pathlib import Path

from placings.core import read_json, read_yaml

PIECES = [
    *"[]{}:,-|>#'", '"a"', "a", "1", "1e999", "\n", "  ", "\t", "null", "NaN", "é", "\x00", "\x1b", "\ufeff",
    "&a ", "*a", "!!int ", "? ", "---\n", "%YAML 9.9\n", "<<: *a",
]  # fmt: skip


def make(source: random.Random, folder: Path) -> Path:
    path = folder / source.choice(["case.json", "case.yaml"])
    text = "".join(
        source.choice(PIECES) * source.choice([1, 1, 1, 1, 70, 3000]) for _ in range(source.randrange(1, 40))
    )
    content = text.encode(source.choice(["utf-8", "utf-8", "utf-16"]), "replace")
    if source.random() < 0.2:
        at = source.randrange(len(content) + 1)
        content = content[:at] + source.randbytes(4) + content[at:]
    path.write_bytes(content)
    return path


def check(path: Path) -> None:
    (read_json if path.suffix == ".json" else read_yaml)(path)
