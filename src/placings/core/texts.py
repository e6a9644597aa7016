"""JSON and YAML from elsewhere: bounded in size and depth, in UTF-8, without YAML's aliases.

Whatever is wrong with them is a `ValueError` in one line, or a `BadFile` that says where.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.core.errors import BadFile
from placings.core.limits import find_limit, say_limit
from placings.core.streams import check_file

if TYPE_CHECKING:
    import yaml


def read_config_text(path: Path) -> str:
    """A small text file whole: a configuration, rules, names. Refused: over the limit, or not UTF-8."""
    check_file(path)
    size = path.stat().st_size
    if size > find_limit("config"):
        raise BadFile(path, say_limit("config", size))
    with open(path, "rb") as file:  # a device or a pipe has no size, and may have no end
        content = file.read(find_limit("config") + 1)
    if len(content) > find_limit("config"):
        raise BadFile(path, say_limit("config"))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise BadFile(
            path, f"is not UTF-8 text (byte 0x{byte:02x}). Save it again as UTF-8.", line=line
        ) from None


def parse_json(text: str | bytes, *, unique: bool = False) -> Any:
    """JSON that is nested no deeper than the limit; everything else is a `ValueError`.

    `unique` refuses a name that stands twice in an object, of which another reader may take the other one.

    >>> parse_json('{"k": [1]}')
    {'k': [1]}
    """
    most = find_limit("depth")
    try:
        value = json.loads(text, object_pairs_hook=_refuse_twice if unique else None)
    except RecursionError:
        raise ValueError(say_limit("depth")) from None
    if _is_deeper(value, most):
        raise ValueError(say_limit("depth"))
    return value


def parse_yaml(text: str) -> Any:
    """YAML without aliases and tags, nested no deeper than the limit; everything else is a `ValueError`.

    An alias can make a page of text mean a billion values, and no configuration of ours needs one.

    >>> parse_yaml("rounds: 200")
    {'rounds': 200}
    """
    import yaml

    try:
        return yaml.load(text, Loader=_find_loader())
    except yaml.YAMLError as error:
        raise ValueError(_say_yaml(error)) from None
    except RecursionError:
        raise ValueError(say_limit("depth")) from None


def read_json(path: Path) -> Any:
    """The value in a small JSON file; a bad one is a `BadFile`."""
    text = read_config_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        raise BadFile(path, f"is not JSON that can be read: {error}.") from None


def read_yaml(path: Path) -> Any:
    """The value in a small YAML file; a bad one is a `BadFile`."""
    text = read_config_text(path)
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise BadFile(path, f"is not YAML that can be read: {error}".rstrip(".") + ".") from None


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            return False
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return True


_LOADERS: list[Any] = []


def _find_loader() -> type[yaml.SafeLoader]:
    """The class is made on first use: yaml takes a while to load."""
    if not _LOADERS:
        import yaml

        class PlainLoader(yaml.SafeLoader):
            """YAML's safe subset, less aliases, with bounded depth."""

            depth = 0

            def compose_node(self, parent: Any, index: Any) -> Any:
                if self.check_event(yaml.AliasEvent):
                    mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                    raise yaml.composer.ComposerError(
                        None, None, "aliases (*name) are not allowed; write the value out", mark
                    )
                if self.depth >= find_limit("depth"):
                    raise yaml.composer.ComposerError(None, None, say_limit("depth"), None)
                self.depth += 1
                try:
                    return super().compose_node(parent, index)
                finally:
                    self.depth -= 1

        _LOADERS.append(PlainLoader)
    found: type[yaml.SafeLoader] = _LOADERS[0]
    return found


def _say_yaml(error: yaml.YAMLError) -> str:
    """YAML's complaint in one line, with its line's number."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    where = f" (line {mark.line + 1})" if mark is not None else ""
    return " ".join(str(problem).split()) + where
