"""svmlight/LETOR text, `label qid:7 1:0.5 3:12 #docid = GX008`: read at memory speed, written back.

The file is cut into blocks of whole lines; threads parse blocks (compiled, GIL released) while the next
one is read, and rows gather in slabs (`slabs.py`) until the matrix is put together.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from placings.arrays import AnyArray, Bools, Floats, Ints
from placings.data.checks import name_features, order_by_query
from placings.data.ids import number_ids
from placings.data.ranking import RankingData
from placings.data.slabs import RowStore
from placings.data.streams import SUFFIXES, iterate_blocks, plain_name, show_progress
from placings.data.svmlight_blocks import BadLine, Block, Rules, parse_lines
from placings.errors import BadFile, BadInput, EmptyFile, PlacingsWarning, option
from placings.threads import map_in_order

BLOCK = 1 << 20


def read_svmlight(
    path: str | Path,
    *,
    missing: str | Sequence[str] = (),
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    sparse: bool | None = None,
    non_finite: str = "error",
    negative_labels: str = "error",
    repeated_qid: str = "join",
    groups: Sequence[int] | str | Path | None = None,
    progress: bool = False,
) -> RankingData:
    """Read svmlight or LETOR text: plain, gzipped or zstd.

    - `missing`: words that stand for a missing value, such as "NULL"; `nan` always does.
    - Feature ids count from 1 (from 0 if a 0 occurs). An absent feature is 0. `n_features` fixes the
      width, so that train and test agree when one of them lacks the last feature.
    - `sparse`: None keeps CSR when under a quarter of the values is written and there are 65 features
      or more.
    - `non_finite`: what inf or a value beyond float32 is: "error", or "missing".
    - `negative_labels`: "error", "zero", or "drop" (rows without a judgement, as in MQ2007-semi).
    - `repeated_qid`: a qid that comes back after other queries is joined with a warning, or an "error".
    - `groups`: for files without qid, the rows of each query in order, or a file of them. LightGBM's
      `<file>.query` and XGBoost's `<file>.group` are found beside the file.

    Comments are kept as item ids where they hold one (`#docid = X`, or a single word).
    """
    path = Path(path)
    check_choice("non_finite", non_finite, ("error", "missing"))
    check_choice("negative_labels", negative_labels, ("error", "zero", "drop"))
    check_choice("repeated_qid", repeated_qid, ("join", "error"))
    words = (missing,) if isinstance(missing, str) else tuple(missing)
    store = RowStore()
    blocks: list[Block] = []
    with show_progress(path, progress) as on_bytes:
        places: list[int] = []  # in the file, after each block

        def advance(place: int) -> None:
            places.append(place)
            on_bytes(place)

        texts = iterate_blocks(path, BLOCK, advance)
        for block in _parse_in_order(path, texts, Rules.of(words, non_finite == "missing")):
            if not blocks:
                store.expected = int(1.1 * block.rows * path.stat().st_size / max(1, places[0]))
            store.add(block)
            blocks.append(_without_features(block))
    if not store.rows:
        raise EmptyFile(path, "holds no rows. Check that the download or the export finished.")
    X = store.assemble(_fix_width(path, store, n_features, feature_names), sparse)
    y = np.concatenate([block.labels for block in blocks])
    lines = np.concatenate([block.row_lines for block in blocks])
    qid = _find_qids(path, blocks, lines, groups)
    items = _find_items(blocks)
    if (y < 0).any():
        keep = _judge_negative(path, y, lines, negative_labels)
        X, y, qid, lines = X[keep], np.maximum(y[keep], 0.0), qid[keep], lines[keep]
        items = None if items is None else items[keep]
    codes, qids = number_ids(qid)
    order, offsets = order_by_query(codes, len(qids))
    if order is not None:
        _say_repeated(path, codes, qids, lines, repeated_qid)
        X, y = X[order], y[order]
        items = None if items is None else items[order]
    names = tuple(feature_names) if feature_names is not None else name_features(X.shape[1])
    return RankingData(X, y, offsets, qids, names, items=items)


def check_choice(name: str, given: str, known: Sequence[str]) -> None:
    """Refuse a keyword's value that is not one of the known ones."""
    if given not in known:
        raise BadInput(f"{name} must be one of {', '.join(map(repr, known))}. Got {given!r}.")


def _parse_in_order(path: Path, texts: Iterable[bytes], rules: Rules) -> Iterator[Block]:
    """Blocks in file order, their lines counted from 1 in the file; the first bad line is the one told."""
    lines = 0
    for block in map_in_order(partial(parse_lines, rules=rules), _skip_mark(texts)):
        if isinstance(block, BadLine):
            raise BadFile(path, block.problem, line=lines + block.line + 1)
        block.row_lines[:] += lines + 1
        lines += block.lines
        yield block


def _skip_mark(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out the byte order mark that some exports put first."""
    for place, text in enumerate(texts):
        yield text.removeprefix(b"\xef\xbb\xbf") if place == 0 else text


def _without_features(block: Block) -> Block:
    nothing = block.values[:0].copy()
    return replace(block, values=nothing, ids=block.ids[:0].copy(), labels=block.labels.copy())


def _fix_width(path: Path, store: RowStore, wanted: int | None, names: Sequence[str] | None) -> int:
    width = store.width
    if wanted is None:
        wanted = width if names is None else len(names)
    if names is not None and len(names) != wanted:
        raise BadInput(f"feature_names must name all {wanted} features. Got {len(names)} names.")
    if wanted < width:
        raise BadFile(
            path, f"has feature {store.highest}, so {width} features, more than the {wanted} asked for."
        )
    return wanted


def _find_qids(
    path: Path, blocks: list[Block], lines: Ints, groups: Sequence[int] | str | Path | None
) -> AnyArray:
    """The qid of each row: as written, or from group sizes given or beside the file."""
    with_qid = np.concatenate([block.with_qid for block in blocks])
    if groups is None and with_qid.all():
        if any(block.qids.dtype == object for block in blocks):
            return np.concatenate([block.qids.astype(str).astype(object) for block in blocks])
        return np.concatenate([block.qids for block in blocks])
    if groups is None and with_qid.any():
        row = int(np.flatnonzero(~with_qid)[0])
        raise BadFile(path, "has no qid, while other lines have one.", line=int(lines[row]))
    if groups is None:
        groups = find_sizes_file(path)
        if groups is None:
            raise BadFile(
                path,
                "has no qid, and no .query or .group file lies beside it. Write the number of rows of each "
                f"query, in order and one a line, into {plain_name(path)}.query, or pass {option('groups')} "
                "with the numbers.",
            )
    where = groups if isinstance(groups, str | Path) else None
    sizes = (
        _read_sizes(Path(groups)) if isinstance(groups, str | Path) else np.asarray(groups, dtype=np.int64)
    )
    if sizes.sum() != len(lines) or (sizes < 0).any():
        raise BadFile(
            where or path,
            f"the sizes of {len(sizes):,} queries add up to {int(sizes.sum()):,} rows, but {path.name} has "
            f"{len(lines):,}.",
        )
    return np.repeat(np.arange(1, len(sizes) + 1), sizes)


def find_sizes_file(path: Path) -> Path | None:
    """LightGBM's `<file>.query` or XGBoost's `<file>.group` beside the file, compressed or not."""
    names = [plain_name(path) + ending for ending in (".query", ".group")]
    candidates = [path.parent / (name + suffix) for name in names for suffix in ("", *SUFFIXES)]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _read_sizes(path: Path) -> Ints:
    text = b"".join(iterate_blocks(path, BLOCK))
    sizes = []
    for line, word in enumerate(text.splitlines(), 1):
        if not word.strip():
            continue
        if not word.strip().isdigit():
            raise BadFile(
                path, f"expected the number of rows of a query, found {word.decode()!r}.", line=line
            )
        sizes.append(int(word))
    return np.array(sizes, dtype=np.int64)


def _find_items(blocks: list[Block]) -> AnyArray | None:
    if all(block.items is None for block in blocks):
        return None
    none = [np.full(block.rows, "", dtype=object) if block.items is None else block.items for block in blocks]
    return np.concatenate(none)


def _judge_negative(path: Path, y: Floats, lines: Ints, rule: str) -> Bools:
    row = int(np.flatnonzero(y < 0)[0])
    if rule == "error":
        raise BadFile(
            path,
            f"the label is {y[row]:g}. Labels must be 0 or more; pass "
            f"{option('negative_labels', value='zero')} to count such rows as "
            "irrelevant, or 'drop' to leave them out.",
            line=int(lines[row]),
        )
    keep = y >= 0 if rule == "drop" else np.ones(len(y), dtype=np.bool_)
    if not keep.any():
        raise EmptyFile(path, "holds no row with a label of 0 or more.")
    return keep


def _say_repeated(path: Path, codes: Ints, qids: AnyArray, lines: Ints, rule: str) -> None:
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    seen, back = np.unique(codes[starts], return_counts=True)
    again = starts[np.flatnonzero(np.diff(codes[starts], prepend=-1) < 0)[0]]
    qid, line = qids.tolist()[codes[again]], int(lines[again])
    if rule == "error":
        raise BadFile(
            path,
            f"qid {qid!r} comes back after other queries. Pass {option('repeated_qid', value='join')} to "
            "join it.",
            line=line,
        )
    warnings.warn(
        f"{path}:{line}: qid {qid!r} comes back after other queries (so do {int((back > 1).sum())} of "
        f"{len(seen):,}); rows of one qid were joined. Pass {option('repeated_qid', value='error')} to "
        "refuse such files.",
        PlacingsWarning,
        stacklevel=3,
    )
