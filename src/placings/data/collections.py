"""Known collections (MSLR, Istella, Yahoo, LETOR): their folders, features and sizes; read and verified."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from placings.core import BadFile, BadInput, Guess, Ints, Mismatch, UnknownName, option, plain_name
from placings.data.concatenation import concat
from placings.data.ranking import RankingData

Part: TypeAlias = tuple[int | None, str | None]  # fold and split; (None, None) is all of it


class Size(NamedTuple):
    """What a publisher says of a part: queries and rows."""

    queries: int
    rows: int


@dataclass(frozen=True)
class Collection:
    """A published data set: how to know its folder, its features, and its published sizes."""

    name: str
    folder: str  # a pattern for the folder's name, in lower case and without punctuation
    n_features: int
    sizes: Mapping[Part, Size]
    splits: tuple[str, ...] = ("train", "valid", "test")
    folds: int = 0
    prefix: str = ""  # of its files: set1.train.txt
    feature_names: tuple[str, ...] | None = None
    inner: tuple[str, ...] = ()  # folders in which the files may stand
    variants: Mapping[str, str] = field(default_factory=dict)  # variant to the folder's pattern
    illegitimate: bool = False  # whether some features hold values that no feature can have


STREAMS = ("body", "anchor", "title", "url", "whole document")
STATISTICS = ("sum", "min", "max", "mean", "variance")


def name_mslr_features() -> tuple[str, ...]:
    """MSLR's 136: 25 statistics of five streams, then eleven of the page and its clicks."""
    kinds = ["covered query term number", "covered query term ratio", "stream length"]
    kinds.append("IDF(Inverse document frequency)")
    for value in ("term frequency", "stream length normalized term frequency", "tf*idf"):
        kinds += [f"{statistic} of {value}" for statistic in STATISTICS]
    kinds += ["boolean model", "vector space model", "BM25", "LMIR.ABS", "LMIR.DIR", "LMIR.JM"]
    page = (
        "Number of slash in URL",
        "Length of URL",
        "Inlink number",
        "Outlink number",
        "PageRank",
        "SiteRank",
    )
    use = ("QualityScore", "QualityScore2", "Query-url click count", "url click count", "url dwell time")
    return (*(f"{kind} {stream}" for kind in kinds for stream in STREAMS), *page, *use)


def name_letor4_features() -> tuple[str, ...]:
    """LETOR 4.0's 46: eight statistics of five streams, then six of the page."""
    kinds = ("TF", "IDF", "TF*IDF", "DL", "BM25", "LMIR.ABS", "LMIR.DIR", "LMIR.JM")
    streams = ("body", "anchor", "title", "URL", "whole document")
    page = ("PageRank", "Inlink number", "Outlink number", "Number of slash in URL", "Length of URL")
    return (*(f"{kind} {stream}" for kind in kinds for stream in streams), *page, "Number of child page")


def name_ohsumed_features() -> tuple[str, ...]:
    """LETOR 3.0's 45 for OHSUMED: fifteen statistics of title, abstract and both.

    Sums run over the query's terms: c is a term's count in the stream, |d| the stream's length, df the
    number of documents that hold the term, cf its count in the collection, |C| the collection's size.
    """
    kinds = (
        "sum of c", "sum of log(c + 1)", "sum of c/|d|", "sum of log(c/|d| + 1)", "sum of log(|C|/df)",
        "sum of log(log(|C|/df))", "sum of log(|C|/cf + 1)", "sum of log(c/|d| * log(|C|/df) + 1)",
        "sum of c * log(|C|/df)", "sum of log(c/|d| * |C|/cf + 1)", "BM25", "log(BM25)",
        "LMIR.DIR", "LMIR.JM", "LMIR.ABS",
    )  # fmt: skip
    return tuple(f"{kind} {stream}" for stream in ("title", "abstract", "title+abstract") for kind in kinds)


def _by_split(**sizes: tuple[int, int]) -> dict[Part, Size]:
    return {(None, None if split == "all" else split): Size(*size) for split, size in sizes.items()}


def _first_fold(**sizes: tuple[int, int]) -> dict[Part, Size]:
    return {(1, split): Size(*size) for split, size in sizes.items()}


def _rotate(sizes: list[tuple[int, int]]) -> dict[Part, Size]:
    """Sizes of every fold and split from those of S1 to S5."""
    parts: dict[Part, Size] = {(None, None): Size(*(sum(column) for column in zip(*sizes, strict=True)))}
    for fold in range(1, 6):
        for split, places in rotate_parts(fold).items():
            chosen = [sizes[place - 1] for place in places]
            parts[fold, split] = Size(*(sum(column) for column in zip(*chosen, strict=True)))
    return parts


def rotate_parts(fold: int) -> dict[str, tuple[int, ...]]:
    """LETOR's rotation: which of S1 to S5 train, validate and test in a fold.

    >>> rotate_parts(1)
    {'train': (1, 2, 3), 'valid': (4,), 'test': (5,)}
    >>> rotate_parts(3)
    {'train': (3, 4, 5), 'valid': (1,), 'test': (2,)}
    """
    places = [(fold - 1 + step) % 5 + 1 for step in range(5)]
    return {"train": tuple(places[:3]), "valid": (places[3],), "test": (places[4],)}


_ALL = (
    Collection(
        "MSLR-WEB30K", r"web30k|mslr30k", 136, folds=5, feature_names=name_mslr_features(),
        sizes=_by_split(all=(31_531, 3_771_125))
        | _first_fold(train=(18_919, 2_270_296), valid=(6_306, 747_218), test=(6_306, 753_611)),
    ),
    Collection(
        "MSLR-WEB10K", r"web10k|mslr10k", 136, folds=5, feature_names=name_mslr_features(),
        sizes=_by_split(all=(10_000, 1_200_192))
        | _first_fold(train=(6_000, 723_412), valid=(2_000, 235_259), test=(2_000, 241_521)),
    ),
    Collection(
        "Istella-S", r"^istellas", 220, inner=("sample",), illegitimate=True,
        sizes=_by_split(
            all=(33_018, 3_408_630), train=(19_245, 2_043_304), valid=(7_211, 684_076), test=(6_562, 681_250)
        ),
    ),
    Collection(
        "Istella-X", r"^istellax", 220, illegitimate=True, sizes=_by_split(all=(10_000, 26_791_447)),
    ),
    Collection(
        "Istella", r"^istella(?!22|[sx])", 220, inner=("full", "sample"), splits=("train", "test"),
        illegitimate=True,
        sizes=_by_split(all=(33_018, 10_454_629), train=(23_219, 7_325_625), test=(9_799, 3_129_004)),
    ),
    Collection(
        "Yahoo Set 1", r"yahoo|ltrc", 700, prefix="set1.", inner=("ltrc_yahoo", "set1"),
        sizes=_by_split(
            all=(29_921, 709_877), train=(19_944, 473_134), valid=(2_994, 71_083), test=(6_983, 165_660)
        ),
    ),
    Collection(
        "Yahoo Set 2", r"yahoo|ltrc", 700, prefix="set2.", inner=("ltrc_yahoo", "set2"),
        sizes=_by_split(
            all=(6_330, 172_870), train=(1_266, 34_815), valid=(1_266, 34_881), test=(3_798, 103_174)
        ),
    ),
    Collection(
        "MQ2007", r"^(letor)?mq2007(?!.*(semi|agg|list))", 46, folds=5, feature_names=name_letor4_features(),
        sizes=_by_split(all=(1_692, 69_623)),
    ),
    Collection(
        "MQ2008", r"^(letor)?mq2008(?!.*(semi|agg|list))", 46, folds=5, feature_names=name_letor4_features(),
        sizes=_rotate([(157, 2_933), (157, 3_635), (157, 3_062), (157, 2_707), (156, 2_874)]),
    ),
    Collection(
        "OHSUMED", r"ohsumed", 45, folds=5, feature_names=name_ohsumed_features(),
        variants={"min": "featuremin", "null": "featurenull", "norm": "querylevelnorm"},
        sizes=_rotate([(21, 2_570), (21, 3_076), (21, 3_573), (21, 3_538), (22, 3_383)]),
    ),
)  # fmt: skip
COLLECTIONS: dict[str, Collection] = {collection.name: collection for collection in _ALL}


def plain_folder(name: str) -> str:
    """A folder's name in lower case, letters and digits only.

    >>> plain_folder("MSLR-WEB30K")
    'mslrweb30k'
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


SPLITS = {"train": "train", "valid": "valid", "vali": "valid", "validation": "valid", "test": "test"}
FILES = {
    "train": ("train.txt", "trainingset.txt"),
    "valid": ("vali.txt", "valid.txt", "validationset.txt"),
    "test": ("test.txt", "testset.txt"),
}
FileReader: TypeAlias = Callable[..., RankingData]
Parts: TypeAlias = dict[str, list[Path]]  # split to its files


@dataclass(frozen=True)
class _Place:
    """A collection on disk: the files of each split, for each fold (None where there are none)."""

    collection: Collection
    folder: Path
    folds: Mapping[int | None, Parts]
    variant: str | None = None


def find_collection(folder: str | PathLike[str]) -> Collection | None:
    """The known collection that a folder holds, by its name (in any case) and its files; None if none.

    The folder may be the collection's own, one of its folds (`MSLR-WEB30K/Fold1`) or variants
    (`ohsumed/Feature-null`). Yahoo and OHSUMED are known by their files alone.
    """
    path = Path(folder).resolve()
    if not path.is_dir():
        return None
    base = path.parent if _fold_number(path) else path
    for collection in COLLECTIONS.values():
        if not (_is_named(base, collection) or _is_told_by_files(base, collection)):
            continue
        place = _search(collection, base, None)
        if place is not None:
            small = COLLECTIONS["Istella-S"]  # only the full collection comes without a validation part
            plainly_full = collection.name != "Istella" or "valid" not in _find_splits(place.folder, small)
            return collection if plainly_full else small
    return None


def read_collection(
    folder: str | PathLike[str],
    *,
    fold: int | None = None,
    split: str | None = None,
    name: str | None = None,
    variant: str | None = None,
    illegitimate: str | Sequence[int] = "drop",
    read_file: FileReader | None = None,
    **options: Any,
) -> RankingData:
    """Read a known collection's folder: one split (train, valid, test) of one fold, or all of it.

    `fold` defaults to 1 where there are folds; `split=None` reads all parts together. Files may be plain,
    .gz or .zst; LETOR's S1 to S5 are combined by its rotation (fold 1 trains on S1 to S3, validates on S4,
    tests on S5). `name` says which collection it is when the folder's name does not ("MSLR-WEB10K"), and
    chooses between Yahoo's two sets. `variant` of OHSUMED is min (the default), null (NULL is read as
    missing) or norm. Numbers of rows and queries are compared with the published ones where there are such;
    a `Mismatch` warning names both when they differ.

    Istella's features with illegitimate values (such as 1.79769313486e+308, which overflow) are found,
    named in a `Mismatch` warning and dropped; `illegitimate="missing"` keeps them with NaN, "error" refuses.
    Their numbers are not published, and one split may show fewer of them than another: pass the numbers that
    reading all of it named, `illegitimate=[…]`, to drop the same ones from every split.

    `read_file(path, **options)` reads one file, `read_svmlight` unless given; `options` go to it. X is dense,
    in every split alike, unless `sparse=True` asks for CSR.
    """
    place = _find_place(Path(folder), name, variant)
    collection = place.collection
    chosen_fold, chosen_split = _choose_fold(place, fold), _choose_split(place, split)
    parts = place.folds[chosen_fold]
    files = _choose_files(place, parts, chosen_split)
    settings: dict[str, Any] = {"n_features": collection.n_features, "sparse": False}
    if collection.feature_names is not None:
        settings["feature_names"] = collection.feature_names
    if place.variant == "null":
        settings["missing"] = ("NULL",)
    if collection.illegitimate:
        settings["non_finite"] = "missing"
    read = read_file or _read_text
    data = [read(file, **{**settings, **options}) for file in files]
    if collection.illegitimate:
        data = _judge_features(data, illegitimate, str(folder))
    whole = data[0] if len(data) == 1 else concat(data, repeated_qid=options.get("repeated_qid", "error"))
    _verify_size(whole, collection, chosen_fold, chosen_split, str(folder))
    return whole


def _read_text(path: Path, **options: Any) -> RankingData:
    from placings.data.svmlight import read_svmlight

    return read_svmlight(path, **options)


# -- finding --------------------------------------------------------------------------------------


def _find_place(folder: Path, name: str | None, variant: str | None) -> _Place:
    if not folder.is_dir():
        raise BadFile(folder, "is not a folder. Name the folder of a known collection.")
    path = folder.resolve()
    base = path.parent if _fold_number(path) else path
    collection = find_collection(folder) if name is None else _find_named(name)
    first, second = COLLECTIONS["Yahoo Set 1"], COLLECTIONS["Yahoo Set 2"]
    if name is None and collection is first and _search(second, base, None) is not None:
        warnings.warn(
            f"{folder} holds both of Yahoo's sets and set 1 is read. Pass "
            f"{option('name', value='Yahoo Set 1')} or 'Yahoo Set 2' to silence this.",
            Guess,
            stacklevel=3,
        )
    if collection is None:
        raise BadFile(
            folder,
            f"is not a folder of a known collection. It holds {_sketch(path)}. Name a file in it, or pass "
            f"{option('name')} with one of: {', '.join(COLLECTIONS)}.",
        )
    if variant is not None and variant not in collection.variants:
        known = ", ".join(collection.variants) or "none"
        raise BadInput(
            f"{collection.name} has these variants: {known}. Got {option('variant', value=variant)}."
        )
    place = _search(collection, base, variant)
    if place is None:
        wanted = f" in the variant {variant!r}" if variant else ""
        raise BadFile(folder, f"has no files of {collection.name}{wanted}. It holds {_sketch(path)}.")
    own = _fold_number(path)
    if own and own in place.folds:
        return _Place(collection, path, {own: place.folds[own]}, place.variant)
    return place


def _find_named(name: str) -> Collection:
    known = {plain_folder(key): collection for key, collection in COLLECTIONS.items()}
    if plain_folder(name) not in known:
        raise UnknownName("collection", name, COLLECTIONS)
    return known[plain_folder(name)]


def _is_named(base: Path, collection: Collection) -> bool:
    if re.search(collection.folder, plain_folder(base.name)):
        return True
    within = {plain_folder(inner) for inner in collection.inner} | set(collection.variants.values())
    return plain_folder(base.name) in within and bool(
        re.search(collection.folder, plain_folder(base.parent.name))
    )


def _is_told_by_files(base: Path, collection: Collection) -> bool:
    if collection.prefix:
        return bool(_find_splits(base, collection))
    inside = {plain_folder(child.name) for child in base.iterdir() if child.is_dir()}
    return bool(collection.variants) and {"featuremin", "featurenull"} <= inside


def _search(collection: Collection, base: Path, variant: str | None) -> _Place | None:
    """Where in `base` the collection's files are: itself, a variant's folder, or an inner one."""
    own = next(
        (key for key, pattern in collection.variants.items() if plain_folder(base.name) == pattern), None
    )
    if own is not None and variant in (None, own):
        candidates: list[tuple[str | None, Path]] = [(own, base)]
    else:
        children = {plain_folder(child.name): child for child in sorted(base.iterdir()) if child.is_dir()}
        wanted = [variant] if variant else list(collection.variants)
        candidates = [] if variant else [(None, base)]
        candidates += [(v, children[p]) for v in wanted if (p := collection.variants[v]) in children]
        inner = (plain_folder(name) for name in collection.inner)
        candidates += [(None, children[name]) for name in inner if name in children]
    for kind, folder in candidates:
        folds = _list_folds(collection, folder)
        if folds:
            return _Place(collection, folder, folds, kind)
    return None


def _list_folds(collection: Collection, folder: Path) -> dict[int | None, Parts]:
    if collection.folds:
        numbered = {_fold_number(child): child for child in sorted(folder.iterdir()) if child.is_dir()}
        found = {number: _find_splits(child, collection) for number, child in numbered.items() if number}
        folds: dict[int | None, Parts] = {number: parts for number, parts in sorted(found.items()) if parts}
        files = _list_files(folder)
        pieces = {n: files[f"s{n}.txt"] for n in range(1, 6) if f"s{n}.txt" in files}
        if folds or not pieces:
            return folds or ({None: parts} if (parts := _find_splits(folder, collection)) else {})
        for number in range(1, 6):
            turn = rotate_parts(number)
            folds[number] = {s: [pieces[n] for n in turn[s]] for s in turn if set(turn[s]) <= set(pieces)}
        return folds
    parts = _find_splits(folder, collection)
    return {None: parts} if parts else {}


def _find_splits(folder: Path, collection: Collection) -> Parts:
    files = _list_files(folder)
    prefixes = [collection.prefix]
    if collection.prefix and plain_folder(folder.name) == plain_folder(collection.prefix):
        prefixes.append("")
    parts: Parts = {}
    for split in collection.splits:
        names = [prefix + name for prefix in prefixes for name in FILES[split]]
        found = next((files[name] for name in names if name in files), None)
        if found is not None:
            parts[split] = [found]
    return parts


def _list_files(folder: Path) -> dict[str, Path]:
    """Files by name in lower case without a compression suffix; the plain one wins."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    return {plain_name(path).lower(): path for path in sorted(files, key=lambda path: -len(path.name))}


def _fold_number(path: Path) -> int | None:
    match = re.fullmatch(r"fold([1-5])", plain_folder(path.name))
    return int(match[1]) if match else None


def _sketch(folder: Path) -> str:
    names = sorted(child.name for child in folder.iterdir())
    return f"{', '.join(names[:8])}{' …' if len(names) > 8 else ''}" if names else "nothing"


# -- choosing -------------------------------------------------------------------------------------


def _choose_fold(place: _Place, fold: int | None) -> int | None:
    known = [number for number in place.folds if number is not None]
    if not known:
        if fold is not None:
            raise BadInput(f"{place.folder} has no folds. Got {option('fold', value=fold)}; leave it out.")
        return None
    chosen = known[0] if fold is None else fold
    if chosen not in known:
        raise BadInput(
            f"{place.folder} has the folds {', '.join(map(str, known))}. Got {option('fold', value=fold)}."
        )
    return chosen


def _choose_split(place: _Place, split: str | None) -> str | None:
    if split is None:
        return None
    if split not in SPLITS:
        raise BadInput(f"split must be train, valid (or vali), test, or None for all. Got {split!r}.")
    if SPLITS[split] not in place.collection.splits:
        raise BadInput(
            f"{place.collection.name} has the splits {', '.join(place.collection.splits)}. Got {split!r}. "
            "Take some of its training queries: train.split(0.8, 0.2, random_state=0)."
        )
    return SPLITS[split]


def _choose_files(place: _Place, parts: Parts, split: str | None) -> list[Path]:
    if split is None:
        return [file for name in place.collection.splits for file in parts.get(name, [])]
    if split not in parts:
        raise BadFile(place.folder, f"has no file of the {split} split. It holds {_sketch(place.folder)}.")
    return parts[split]


# -- verifying ------------------------------------------------------------------------------------


def _verify_size(
    data: RankingData, collection: Collection, fold: int | None, split: str | None, source: str
) -> None:
    published = collection.sizes.get((None, None) if split is None else (fold, split))
    if published is None or published == (data.n_queries, data.n_rows):
        return
    part = "" if split is None else f" {split}" if fold is None else f" fold {fold} {split}"
    warnings.warn(
        f"{source}: {collection.name}{part} has {published.queries:,} queries and {published.rows:,} rows as "
        f"published. Got {data.n_queries:,} and {data.n_rows:,}. Is a file cut short, or another edition?",
        Mismatch,
        stacklevel=3,
    )


def _judge_features(data: list[RankingData], rule: str | Sequence[int], source: str) -> list[RankingData]:
    """Find features with values that no feature can have, say so, and drop, keep or refuse them."""
    width = data[0].n_features
    chosen = [] if isinstance(rule, str) else [int(number) for number in rule]
    if isinstance(rule, str) and rule not in ("drop", "missing", "error"):
        raise BadInput(f"illegitimate must be 'drop', 'missing', 'error' or feature numbers. Got {rule!r}.")
    if not all(1 <= number <= width for number in chosen):
        raise BadInput(f"illegitimate names features by number, 1 to {width}. Got {list(rule)}.")
    counts = np.sum([count_missing(part) for part in data], axis=0)
    found = (np.flatnonzero(counts) + 1).tolist()
    if found:
        shown = ", ".join(f"{number} ({counts[number - 1]:,} rows)" for number in found[:20])
        fact = f"{source}: {len(found)} of {width} features hold illegitimate values, by number: {shown}."
        if rule == "error":
            raise BadInput(
                f"{fact} Pass {option('illegitimate', value='drop')}, 'missing' or the numbers to drop."
            )
        if rule == "drop":
            fact += (
                f" They are dropped; pass {option('illegitimate', value=found)} to drop the same ones from"
            )
            fact += " every split."
        elif set(found) - set(chosen):
            fact += (
                " They are read as missing." if rule == "missing" else " Those not named are read as missing."
            )
        if rule == "drop" or set(found) - set(chosen):
            warnings.warn(fact, Mismatch, stacklevel=3)
    dropped = set(found if rule == "drop" else chosen)
    if not dropped:
        return data
    keep = [place for place in range(width) if place + 1 not in dropped]
    return [part.select(keep) for part in data]


def count_missing(data: RankingData) -> Ints:
    """How many rows of each feature are missing `[features]`."""
    X: Any = data.X
    if data.is_sparse:
        return np.bincount(X.indices[np.isnan(X.data)], minlength=data.n_features).astype(np.int64)
    blocks = (X[start : start + 65_536] for start in range(0, data.n_rows, 65_536))
    counts = sum((np.isnan(block).sum(axis=0) for block in blocks), np.zeros(data.n_features, dtype=np.int64))
    return np.asarray(counts, dtype=np.int64)
