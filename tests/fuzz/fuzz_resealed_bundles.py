"""Bundles whose files or facts were changed by someone who then made the manifest anew.

Nothing but a digest protects against other scores; but a load must not crash, hang or exhaust the machine.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

from bundle_cases import BUNDLES, score
from mutations import change_bytes, change_text, change_value, change_word

from placings.core import read_bundle, write_bundle


def make(source: random.Random, folder: Path) -> Path:
    path = folder / (original := source.choice(BUNDLES)).name
    parts = ["model", "reranker"] if path.name == "reranker" else [""]
    changed = source.choice(parts)
    pinned = None
    for part in parts:
        bundle = read_bundle(original / part)
        facts = {k: v for k, v in bundle.manifest.items() if k not in ("kind", "version", "files")}
        if pinned is not None:
            facts["model"] = pinned
        files = dict(bundle.files)
        if part == changed:
            for _ in range(source.choice((1, 1, 1, 2, 3))):
                facts, files = _change(source, facts, files)
        pinned = write_bundle(path / part, facts, files)
    return path


def _change(
    source: random.Random, facts: dict[str, Any], files: dict[str, bytes]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    if source.random() < 0.25 or not files:
        changed = change_value(source, facts)
        try:
            json.dumps(changed, allow_nan=False)
        except ValueError:
            return facts, files
        return (changed if isinstance(changed, dict) else facts), files
    name = source.choice(sorted(files))
    content = files[name]
    if source.random() < 0.04:
        return facts, {key: each for key, each in files.items() if key != name}
    try:
        return facts, {**files, name: _change_file(source, name, content)}
    except (ValueError, struct.error):  # it was changed before, and is no JSON any more
        return facts, {**files, name: change_bytes(source, content)}


def _change_file(source: random.Random, name: str, content: bytes) -> bytes:
    if source.random() < 0.15:
        return change_bytes(source, content)
    if name.endswith(".json"):
        return json.dumps(change_value(source, json.loads(content))).encode()
    if name.endswith(".safetensors"):
        return _change_tensors(source, content)
    return (change_text if name.endswith(".txt") else change_word)(source, content)


def _change_tensors(source: random.Random, content: bytes) -> bytes:
    """Its header, which is JSON, or a number of its body."""
    size = struct.unpack_from("<Q", content)[0]
    if source.random() < 0.4:
        return content[: 8 + size] + change_word(source, content[8 + size :])
    header = json.dumps(change_value(source, json.loads(content[8 : 8 + size]))).encode()
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def check(path: Path) -> None:
    score(path)
