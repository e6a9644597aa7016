"""`read` and `write`: one door to every format, with the cache behind it."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from placings.core import (
    BadFile,
    BadInput,
    UnknownName,
    check_file,
    find_warning,
    iterate_blocks,
    option,
    plain_name,
    read_config_text,
)
from placings.data import cache as stored
from placings.data.checks import name_features
from placings.data.concatenation import concat
from placings.data.paths import list_files
from placings.data.ranking import RankingData

NAMES_FILE = "feature_names.txt"


def read(
    path: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    fold: int | None = None,
    split: str | None = None,
    cache: bool | str = True,
    progress: bool = False,
    **options: Any,
) -> RankingData:
    """Read ranking data from a file, from several as one set, or from the folder of a known collection.

    `path` may be a glob (`"part-*.parquet"`) or a list of paths: features are matched by name, in svmlight
    text the widest file says how many there are. A query that stands in two files is an error, unless
    `repeated_qid="join"` says that its rows belong together.

    - svmlight/LETOR text, `.gz` and `.zst` too: options of `read_svmlight` (`missing="NULL"`,
      `n_features=136`, `groups=…`);
    - parquet (a file, or a folder of parts), CSV and TSV: `qid=`, `label=`, `item=`, `features=` name
      columns, or are guessed and said; `ignore=` names those to pass over. Columns such as `clicked` are no
      features unless `features=` or `keep=` names them. In CSV `thousands=","` reads 1,234 as a number;
    - a TREC run with `qrels=` naming the judgements;
    - a folder of MSLR-WEB10K/30K, Istella, Yahoo, MQ2007/2008 or OHSUMED: `fold=1, split="train"`.

    `format` ("svmlight", "parquet", "csv", "trec") is told from the name and the first bytes if not given.
    Features are named by a file `feature_names.txt` beside svmlight text, or by the known collection that
    the file lies in. The second read of a file of 2 MiB
    or more comes memory-mapped from the cache (`cache=False` never looks there, "always" keeps small
    files too).

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = file.write_text("2 qid:1 1:0.5 2:3\\n0 qid:1 1:0.1 2:7\\n")
    >>> read(file).X
    array([[0.5, 3. ],
           [0.1, 7. ]], dtype=float32)
    """
    files_given = list_files(path)
    if len(files_given) > 1:
        common = {"format": format, "fold": fold, "split": split, "cache": cache, "progress": progress}
        return _read_several(files_given, {**common, **options})
    path = files_given[0]
    if path.is_dir() and format is None and any(path.glob("*.parquet")):
        format = "parquet"
    if path.is_dir() and format != "parquet":
        from placings.data.collections import read_collection

        def read_part(part: str | Path, **part_options: Any) -> RankingData:
            return read(part, format="svmlight", cache=cache, progress=progress, **part_options)

        return read_collection(path, fold=fold, split=split, read_file=read_part, **options)
    if fold is not None or split is not None:
        raise BadInput(f"fold and split choose from a known collection's folder. Got the file {path}.")
    if cache not in (True, False, "always"):
        raise BadInput(f"cache must be True, False or 'always'. Got {cache!r}.")
    if not path.is_dir():
        check_file(path)
    if "qrels" in options:
        format = format or "trec"
    if format != "svmlight" and "repeated_qid" in options and find_format(path) != "svmlight":
        options.pop("repeated_qid")  # of several files; the rows of a table may stand anywhere
    name = format or find_format(path)
    if name not in READERS:
        raise UnknownName("format", name, READERS)
    reader = READERS[name].read
    files = [*([] if path.is_dir() else [path]), *READERS[name].side_files(path, options)]
    worth = cache == "always" or sum(file.stat().st_size for file in files) >= stored.SMALLEST
    if not cache or not worth:
        return reader(path, **options, progress=progress)
    return _read_through_cache(reader, name, path, files, options, progress)


def _read_several(files: list[Path], options: dict[str, Any]) -> RankingData:
    """Files one after the other as one data set; what each says of itself is said once."""
    if options["fold"] is not None or options["split"] is not None:
        raise BadInput(f"fold and split choose from one collection's folder. Got {len(files)} paths.")
    repeated = options.get("repeated_qid", "error")
    said: set[str] = set()
    chosen: dict[str, Any] = {}
    for file in files:
        if not file.is_dir():
            check_file(file)
    tables = [file for file in files if file.is_dir() or find_format(file) != "svmlight"]
    if options["format"] == "svmlight" or not tables:
        chosen = {name: options.get(name) for name in ("features", "ignore")}  # once all are as wide
        options = {name: value for name, value in options.items() if name not in chosen}
    parts = [_read_part(file, options, said) for file in files]
    widest = max(part.n_features for part in parts)
    plain = all(part.feature_names == name_features(part.n_features) for part in parts)
    if plain and "n_features" not in options and any(part.n_features != widest for part in parts):
        wide = {**options, "n_features": widest}
        parts = [
            part if part.n_features == widest else _read_part(file, wide, said)
            for file, part in zip(files, parts, strict=True)
        ]
    try:
        whole = concat(parts, repeated_qid=repeated)
    except BadInput as error:
        listed = ", ".join(f"part {place}: {file}" for place, file in enumerate(files[:5]))
        more = ", …" if len(files) > 5 else ""
        raise BadInput(
            f"the {len(files)} files are no one data set: {error.marked} ({listed}{more})"
        ) from None
    return _choose(whole, **chosen, path=files[0]) if any(chosen.values()) else whole


def _read_part(file: Path, options: dict[str, Any], said: set[str]) -> RankingData:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = read(file, **options)
    for each in caught:
        text = getattr(each.message, "marked", str(each.message))
        if text.replace(str(file), "") not in said:
            said.add(text.replace(str(file), ""))
            warnings.warn(each.message, each.category, stacklevel=4)
    return data


def write(data: RankingData, path: str | Path, *, format: str | None = None, **options: Any) -> None:
    """Write `.parquet` (keeps everything) or svmlight text (any other suffix, `.gz` and `.zst` too).

    The file appears whole or not at all.
    """
    path = Path(path)
    format = name_written(path) if format is None else format
    if format == "parquet":
        from placings.data.tables import write_parquet

        write_parquet(data, path, **options)
    elif format == "svmlight":
        from placings.data.svmlight import write_svmlight

        write_svmlight(data, path, **options)
    else:
        raise UnknownName("format", format, ("parquet", "svmlight"))


def name_written(path: Path) -> str:
    """The format that `write` chooses by a file's name; CSV is read, not written."""
    if plain_name(path).lower().endswith((".csv", ".tsv")):
        raise BadInput(f"placings writes parquet and svmlight. Got {path.name}; name it .parquet or .txt.")
    return "parquet" if path.suffix.lower() in (".parquet", ".pq") else "svmlight"


def find_format(path: Path) -> str:
    """The format of a file, a name of `READERS`: by its ending, its first bytes, or its first line."""
    name = plain_name(path).lower()
    for format, reader in READERS.items():
        if name.endswith(reader.endings):
            return format
    with open(path, "rb") as file:
        start = file.read(16)
    for format, reader in READERS.items():
        if reader.magic and start.startswith(reader.magic):
            return format
    head = next(iterate_blocks(path, 1 << 16), b"")[: 1 << 16].decode("utf-8", "replace").lstrip("\ufeff")
    line = next((row for row in head.splitlines() if row.strip() and not row.startswith("#")), "")
    if re.match(r"\s*\S+\s+(qid:\S+\s+)?\d+:\S", line) or re.match(r"\s*\S+\s+qid:\S+", line):
        return "svmlight"
    if len(line.split()) == 6 and line.split()[1].upper() == "Q0":
        raise BadFile(path, f"looks like a TREC run. Pass {option('qrels')} with the file of judgements.")
    if line.count(",") >= 2 or line.count("\t") >= 2:
        return "csv"
    return "svmlight"  # its reader says best what is wrong with it


def _read_text(path: Path, **options: Any) -> RankingData:
    from placings.data.svmlight import read_svmlight

    given = dict(options)
    features, ignore = given.pop("features", None), given.pop("ignore", None)
    data = _call(read_svmlight, path, given)
    names = None if given.get("feature_names") is not None else _find_names(path)
    fits = names is not None and len(names) == data.n_features
    data = data.replace(feature_names=names) if fits else data
    return data if features is None and ignore is None else _choose(data, features, ignore, path)


def _choose(
    data: RankingData, features: Sequence[str] | None, ignore: Sequence[str] | None, path: Path
) -> RankingData:
    """The data with these features only, by name, and without those to be passed over."""
    known = {name.removeprefix("f"): name for name in data.feature_names if name[1:].isdecimal()}
    known |= {name: name for name in data.feature_names}  # a feature without a name goes by its number too
    for name in (*(features or ()), *(ignore or ())):
        if str(name) not in known:
            raise UnknownName(f"feature in {path} named", str(name), data.feature_names)
    wanted = data.feature_names if features is None else tuple(known[str(name)] for name in features)
    without = {known[str(name)] for name in ignore or ()}
    return data.select([name for name in wanted if name not in without])


def _find_names(path: Path) -> tuple[str, ...] | None:
    """Names written beside the file, or those of the known collection it lies in."""
    from placings.data.collections import find_collection

    if (path.parent / NAMES_FILE).is_file():
        return read_feature_names(path.parent / NAMES_FILE)
    collection = find_collection(path.parent)
    return None if collection is None else collection.feature_names


def read_feature_names(path: str | Path) -> tuple[str, ...]:
    """One name a line, with or without its number in front: `7 covered query term ratio anchor`."""
    lines = [line.strip() for line in re.split("\r\n|\n|\r", read_config_text(Path(path)))]
    names = [re.sub(r"^\d+[\s:.)]+", "", line) for line in lines if line]
    return tuple(" ".join(name.split()) for name in names)


def _read_csv(path: Path, *, progress: bool = False, **options: Any) -> RankingData:
    from placings.data.tables import from_table, read_csv

    return _call(read_csv, path, options, from_table)


def _read_parquet(path: Path, *, progress: bool = False, **options: Any) -> RankingData:
    from placings.data.tables import from_table, read_parquet

    return _call(read_parquet, path, options, from_table)


def _read_trec(path: Path, *, progress: bool = False, **options: Any) -> RankingData:
    from placings.data.trec import read_trec

    if "qrels" not in options:
        raise BadInput(
            f"a TREC run needs its judgements. Pass {option('qrels')} with their file to read {path}."
        )
    return _call(read_trec, path, options)


def _text_files(path: Path, options: dict[str, Any]) -> list[Path]:
    from placings.data.svmlight import find_sizes_file

    groups = options.get("groups")
    chosen = Path(groups) if isinstance(groups, str | Path) else find_sizes_file(path)
    return [file for file in (chosen, path.parent / NAMES_FILE) if file is not None and file.is_file()]


def _trec_files(path: Path, options: dict[str, Any]) -> list[Path]:
    return [Path(options["qrels"])] if "qrels" in options and Path(options["qrels"]).is_file() else []


def _no_files(path: Path, options: dict[str, Any]) -> list[Path]:
    return []


def _parquet_files(path: Path, options: dict[str, Any]) -> list[Path]:
    return sorted(path.rglob("*.parquet")) if path.is_dir() else []


Reader = Callable[..., RankingData]


@dataclass(frozen=True)
class FileFormat:
    """How a format is read, and how a file of it is known: by its ending, or by its first bytes.

    `function` reads a path with options; as "module:function" of this room it is imported when it is used,
    and shows no progress. `side_files` are the other files that it looks at: part of the cache's key.
    """

    function: Reader | str
    endings: tuple[str, ...] = ()
    magic: bytes = b""
    side_files: Callable[[Path, dict[str, Any]], Sequence[Path]] = _no_files

    def read(self, path: Path, **options: Any) -> RankingData:
        """The ranking data of a file."""
        if not isinstance(self.function, str):
            return _call(self.function, path, options)
        module, _, name = self.function.partition(":")
        options.pop("progress", None)
        found: RankingData = getattr(import_module(f"placings.data.{module}"), name)(path, **options)
        return found


# A new format is one line here; one that has neither ending nor first bytes is told by `find_format`.
READERS: dict[str, FileFormat] = {
    "svmlight": FileFormat(_read_text, side_files=_text_files),
    "parquet": FileFormat(_read_parquet, (".parquet", ".pq"), b"PAR1", _parquet_files),
    "csv": FileFormat(_read_csv, (".csv", ".tsv")),
    "trec": FileFormat(_read_trec, side_files=_trec_files),
}


def _call(function: Reader, path: Path, options: dict[str, Any], *inner: Reader) -> RankingData:
    """Read with options that the function, or one that it hands them on to, takes; refuse others."""
    given = [each for one in (function, *inner) for each in inspect.signature(one).parameters.values()]
    known = {each.name for each in given}
    hands_on = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in given) and not inner
    for name in options:
        if name not in known and not hands_on:
            raise BadInput(
                f"{path.name} is not read with {option(name)}, which is for another kind of file. "
                "Leave it out."
            )
    return function(path, **options)


def _read_through_cache(
    reader: Reader, name: str, path: Path, files: list[Path], options: dict[str, Any], progress: bool
) -> RankingData:
    try:
        key = stored.make_key(files, {**options, "format": name})
    except TypeError:  # an option that has no plain form
        return reader(path, **options, progress=progress)
    found = stored.load_entry(key)
    if found is not None:
        data, said = found
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            data = reader(path, **options, progress=progress)
        said = [
            [warning.category.__name__, getattr(warning.message, "marked", str(warning.message))]
            for warning in caught
        ]
        stored.remember(key, path, data, said)
    for category, message in said:  # said again on every read, from the cache or not
        kind = find_warning(category)
        warnings.warn(message, kind, stacklevel=4)
    return data
