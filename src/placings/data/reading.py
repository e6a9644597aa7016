"""`read` and `write`: one door to every format, with the cache behind it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
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
)
from placings.data import cache as stored
from placings.data.ranking import RankingData

NAMES_FILE = "feature_names.txt"


def read(
    path: str | Path,
    *,
    format: str | None = None,
    fold: int | None = None,
    split: str | None = None,
    cache: bool | str = True,
    progress: bool = False,
    **options: Any,
) -> RankingData:
    """Read ranking data from a file, or from the folder of a known collection.

    - svmlight/LETOR text, `.gz` and `.zst` too: options of `read_svmlight` (`missing="NULL"`,
      `n_features=136`, `groups=…`);
    - parquet (a file, or a folder of parts), CSV and TSV: `qid=`, `label=`, `item=`, `features=` name
      columns, or are guessed and said. Columns such as `clicked` are no features unless `features=` or
      `keep=` names them;
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
    path = Path(path)
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
    name = format or find_format(path)
    if name not in READERS:
        raise UnknownName("format", name, READERS)
    reader, side_files = READERS[name]
    files = [*([] if path.is_dir() else [path]), *side_files(path, options)]
    worth = cache == "always" or sum(file.stat().st_size for file in files) >= stored.SMALLEST
    if not cache or not worth:
        return _check_options(reader, path, {**options, "progress": progress})
    return _read_through_cache(reader, name, path, files, options, progress)


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
    """svmlight, parquet, csv or trec, by the file's name, else by its first line."""
    name = plain_name(path).lower()
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    if name.endswith((".csv", ".tsv")):
        return "csv"
    with open(path, "rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    head = next(iterate_blocks(path, 1 << 16), b"").decode("utf-8", "replace").lstrip("\ufeff")
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

    data = read_svmlight(path, **options)
    names = None if options.get("feature_names") is not None else _find_names(path)
    fits = names is not None and len(names) == data.n_features
    return data.replace(feature_names=names) if fits else data


def _find_names(path: Path) -> tuple[str, ...] | None:
    """Names written beside the file, or those of the known collection it lies in."""
    from placings.data.collections import find_collection

    if (path.parent / NAMES_FILE).is_file():
        return read_feature_names(path.parent / NAMES_FILE)
    collection = find_collection(path.parent)
    return None if collection is None else collection.feature_names


def read_feature_names(path: str | Path) -> tuple[str, ...]:
    """One name a line, with or without its number in front: `7 covered query term ratio anchor`."""
    lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    names = [re.sub(r"^\d+[\s:.)]+", "", line) for line in lines if line]
    return tuple(" ".join(name.split()) for name in names)


def _read_csv(path: Path, *, progress: bool = False, **options: Any) -> RankingData:
    from placings.data.tables import read_csv

    return read_csv(path, **options)


def _read_parquet(path: Path, *, progress: bool = False, **options: Any) -> RankingData:
    from placings.data.tables import read_parquet

    return read_parquet(path, **options)


def _read_trec(path: Path, *, progress: bool = False, **options: Any) -> RankingData:
    from placings.data.trec import read_trec

    if "qrels" not in options:
        raise BadInput(
            f"a TREC run needs its judgements. Pass {option('qrels')} with their file to read {path}."
        )
    return read_trec(path, **options)


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
READERS: dict[str, tuple[Reader, Callable[[Path, dict[str, Any]], Sequence[Path]]]] = {
    "svmlight": (_read_text, _text_files),
    "parquet": (_read_parquet, _parquet_files),
    "csv": (_read_csv, _no_files),
    "trec": (_read_trec, _trec_files),
}


def _check_options(reader: Reader, path: Path, options: dict[str, Any]) -> RankingData:
    try:
        return reader(path, **options)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None:
            raise
        raise BadInput(
            f"{path.name} is not read with {option(unknown.group(1))}, which is for another kind of file. "
            "Leave it out."
        ) from None


def _read_through_cache(
    reader: Reader, name: str, path: Path, files: list[Path], options: dict[str, Any], progress: bool
) -> RankingData:
    try:
        key = stored.make_key(files, {**options, "format": name})
    except TypeError:  # an option that has no plain form
        return _check_options(reader, path, {**options, "progress": progress})
    found = stored.load_entry(key)
    if found is not None:
        data, said = found
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            data = _check_options(reader, path, {**options, "progress": progress})
        said = [
            [warning.category.__name__, getattr(warning.message, "marked", str(warning.message))]
            for warning in caught
        ]
        stored.remember(key, path, data, said)
    for category, message in said:  # said again on every read, from the cache or not
        kind = find_warning(category)
        warnings.warn(message, kind, stacklevel=4)
    return data
