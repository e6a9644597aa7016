"""Known collections: how their folders look, what their features are called, how large they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

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
