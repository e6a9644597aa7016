"""Why n-grams fail on long queries, what features weigh, and what unclicked searches are worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import AnyArray, Floats
from placings.data import RankingData
from placings.features import SIGNALS
from placings.logs import SEARCH_ID, carry_clicks, find_offsets
from placings.rankers import LightGBMRanker
from placings.studies.places_measures import compare_two, find_sessions, invert_ranks, list_measures
from placings.studies.places_models import (
    COUNTED,
    RELATIONS,
    TREE_NGRAMS,
    StudyCells,
    forget_grades,
    join_columns,
    measure_mrr,
    weigh_bands,
)

if TYPE_CHECKING:
    import pandas as pd

TEXTS = ("query", "text", "name", "street", "locality", "neighbourhood", "borough")
TOP = 20
POPULAR = ("weight", "distance_", "log_distance", "past_clicks", "has_focus")  # in names of columns


def explain_lengths(
    store: StudyCells, engine: Mapping[str, Any], bands: AnyArray, seen: AnyArray
) -> dict[str, Any]:
    """The experiment: the same trees on n-grams, and with more and more of what n-grams cannot say.

    Trees that split on n-grams of the query and of the name cannot say that the two agree: they learn which
    names are clicked often. A long query asks for one particular place, seldom one that was clicked before.
    So MRR is told by band, and apart for searches whose clicked item was (`seen`) or was never clicked in
    training. Popularity and distance come first, so that what they do is not taken for what relations do.
    """
    known = ("popularity", "relations")
    steps = {
        "n-grams": (("ngrams",), False),
        "+ popularity and distance": (("ngrams", "popularity"), False),
        "+ relations of the texts": (("ngrams", *known), False),
        "+ the engine's rank and score": (("ngrams", *known, "signals"), False),
        "+ balanced by band": (("ngrams", *known, "signals"), True),
        "relations and engine, no n-grams": ((*known, "signals"), True),
    }
    base = invert_ranks(engine["clicks"], absent=np.nan)
    judged = ~np.isnan(base)
    rows: list[dict[str, Any]] = [_tell("engine", base, base, bands, seen, store)]
    for title, (blocks, balanced) in steps.items():
        cell = _judge_step(store, title, blocks, balanced)
        rows.append(_tell(title, base, invert_ranks(cell["clicks"], absent=np.nan), bands, seen, store))
    trained = count_bands(store.parts.train)
    table = []
    for band in _order(bands):
        here = (bands == band) & judged
        known = seen[here]
        table.append(
            {
                "band": band, "train_searches": trained.get(band, 0), "test_searches": int(here.sum()),
                "clicked_before": float(known.mean()) if len(known) else None,
            }
        )  # fmt: skip
    return {"models": rows, "bands": table}


def _judge_step(store: StudyCells, title: str, blocks: tuple[str, ...], balanced: bool) -> dict[str, Any]:
    settings = store.settings
    ranker = LightGBMRanker(
        rounds=settings.rounds, early_stopping=max(10, settings.rounds // 4), metric="mrr", debias=False,
        learning_rate=settings.tree_rate, random_state=settings.seed,
    )  # fmt: skip

    def make() -> dict[str, Any]:
        parts = {name: _collect(store, name, blocks) for name in ("train", "valid", "test")}
        train = parts["train"]
        if balanced:
            train = balance(train, store.feature_data.rows(TREE_NGRAMS, "train"))
        ranker.fit(train, valid=parts["valid"])
        scores = np.asarray(ranker.predict(parts["test"]), dtype=np.float64)
        return {**store.rank(scores), "valid": measure_mrr(ranker, parts["valid"])}

    about = {"blocks": blocks, "balanced": balanced, "settings": ranker.get_params(deep=False),
             "features": [store.feature_data.describe(family) for family in (TREE_NGRAMS, RELATIONS)],
             }  # fmt: skip
    return store.keep(f"why {title}", about, make)


def balance(data: RankingData, rows: pd.DataFrame) -> RankingData:
    """The same data with searches of rare query lengths weighing more."""
    from placings.rerank import describe_searches

    kinds = describe_searches({"query": rows["query"]}, data.offsets)
    return data.replace(weight=weigh_bands(data.sizes, kinds["length"]))


def _collect(store: StudyCells, part: str, blocks: tuple[str, ...]) -> RankingData:
    """The columns of the wanted blocks over the same rows: lists trimmed as for n-grams."""
    rows = store.feature_data.rows(TREE_NGRAMS, part)
    relations = store.feature_data.make(RELATIONS, rows)
    wanted = [name for name in relations.feature_names if name_block(name) in blocks]
    dense = relations.select(wanted)
    if "ngrams" not in blocks:
        return dense
    ngrams = store.feature_data.data(TREE_NGRAMS, part)
    ngrams = ngrams.select([i for i, name in enumerate(ngrams.feature_names) if not is_signal(name)])
    return join_columns(ngrams, dense) if wanted else ngrams


def name_block(name: str) -> str:
    """The block of a column: the engine's signals, popularity and distance, or relations.

    >>> name_block("score_gap"), name_block("tier_weight_rank"), name_block("log_past_clicks")
    ('signals', 'popularity', 'popularity')
    >>> name_block("name_prefix")
    'relations'
    """
    if is_signal(name):
        return "signals"
    return "popularity" if any(word in name for word in POPULAR) else "relations"


def is_signal(name: str) -> bool:
    """Whether a column tells the engine's own order.

    >>> is_signal("reciprocal_rank"), is_signal("score_gap"), is_signal("name_length")
    (True, True, False)
    """
    return name in SIGNALS


def _tell(
    title: str, base: Floats, values: Floats, bands: AnyArray, seen: AnyArray, store: StudyCells
) -> dict[str, Any]:
    how = _resampling(store)
    row: dict[str, Any] = {"model": title, "all": compare_two(base, values, **how)}
    row["bands"] = {band: compare_two(base, values, bands == band, **how) for band in _order(bands)}
    row["clicked_before"] = compare_two(base, values, seen, **how)
    row["never_clicked_before"] = compare_two(base, values, ~seen, **how)
    return row


def _resampling(store: StudyCells) -> dict[str, Any]:
    """How every interval of the test searches is drawn."""
    test = store.parts.test
    return {
        "draws": store.settings.bootstrap,
        "seed": store.settings.seed,
        "sessions": find_sessions(test, find_offsets(test)),
    }


def find_seen(train: pd.DataFrame, test: pd.DataFrame) -> AnyArray:
    """Whether the clicked item of each test search was clicked in training, `[searches]`."""
    known = set(train.loc[train["label"] > 0, "item_id"])
    hits = ((test["label"] > 0) & test["item_id"].isin(known)).to_numpy()
    return np.asarray(np.logical_or.reduceat(hits, find_offsets(test)[:-1]))


def count_bands(rows: pd.DataFrame) -> dict[str, int]:
    """How many searches there are of each band of query length."""
    from placings.rerank import describe_searches

    names = describe_searches({"query": rows["query"]}, find_offsets(rows))["length"]
    return {str(name): int(count) for name, count in zip(*np.unique(names, return_counts=True), strict=True)}


def weigh_ngrams(store: StudyCells) -> dict[str, Any]:
    """Figures 6.2 and 6.3: gain of LightGBM on counted n-grams, whose names are kept; gains add up to 1."""
    settings = store.settings
    ranker = LightGBMRanker(
        rounds=settings.counted_rounds, early_stopping=None, debias=False, learning_rate=settings.tree_rate,
        random_state=settings.seed,
    )  # fmt: skip

    def make() -> dict[str, Any]:
        ranker.fit(store.feature_data.data(COUNTED, "train"))
        gains = ranker.feature_importances("gain")
        total = sum(gains.values()) or 1.0
        shares = [(name, gain / total) for name, gain in gains.items()]
        plain = [pair for pair in shares if not is_textual(pair[0])]
        return {"all": shares[:TOP], "plain": plain[:TOP], "columns": len(shares)}

    about = {"settings": ranker.get_params(deep=False), "features": store.feature_data.describe(COUNTED)}
    return store.keep("importances", about, make)


def is_textual(name: str) -> bool:
    """Whether a column counts an n-gram, `field:gram`.

    >>> is_textual("name:ruh"), is_textual("type:stop"), is_textual("name_length")
    (True, False, False)
    """
    field, colon, _ = name.partition(":")
    return bool(colon) and field in TEXTS


def try_unclicked(store: StudyCells, engine: Mapping[str, Any]) -> dict[str, Any]:
    """What searches without a click are worth to training: the thesis' last question.

    Trees on relation features, of equally many rounds: trained on clicked searches alone; with the others as
    lists of zeros (which hold no pair to learn from: only bins and the sizes of leaves change); with the
    click that ended the session carried back to the searches before it whose list held the item; and row by
    row, without and with the others as negatives.
    """
    parts = store.parts
    count = parts.counts["unclicked"]
    if not count:
        return {"searches": 0, "note": "the log holds no searches without a click."}
    binary = {"params": {"objective": "binary"}}
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "clicked searches only": ("none", {}),
        "and the others as lists of zeros": ("zeros", {}),
        "and clicks carried back": ("carried", {}),
        "row by row, clicked searches only": ("none", binary),
        "row by row, and the others as negatives": ("zeros", binary),
    }
    table, carried = [], carry_clicks(parts.train_log, parts.unclicked)
    for title, (how, given) in ways.items():
        cell = _judge_way(store, title, how, given, carried)
        row: dict[str, Any] = {"training": title, "searches": cell["searches"]}
        for measure, (before, after) in list_measures(engine, cell).items():
            facts = compare_two(before, after, **_resampling(store))
            row |= {f"{key}_{measure}": facts[key] for key in ("model", "difference", "low", "high")}
        table.append(row)
    held = int(carried[SEARCH_ID].nunique()) if len(carried) else 0
    return {"searches": count, "carried": held, "table": table}


def _judge_way(
    store: StudyCells, title: str, how: str, given: Mapping[str, Any], carried: pd.DataFrame
) -> dict[str, Any]:
    settings = store.settings
    ranker = LightGBMRanker(
        rounds=settings.rounds, early_stopping=None, debias=False, random_state=settings.seed, **given
    )

    def make() -> dict[str, Any]:
        from placings.data import concat

        train = store.feature_data.data(RELATIONS, "train")
        more = {"zeros": store.parts.unclicked, "carried": carried}.get(how)
        if more is not None and len(more):
            train = concat([train, store.feature_data.make(RELATIONS, more)])
        ranker.fit(forget_grades(train) if given else train)
        test = store.feature_data.data(RELATIONS, "test")
        found = store.rank(np.asarray(ranker.predict(test), dtype=np.float64))
        return {**found, "searches": train.n_queries}

    about = {
        "how": how,
        "settings": ranker.get_params(deep=False),
        "features": store.feature_data.describe(RELATIONS),
    }
    return store.keep(f"unclicked {title}", about, make)


def _order(bands: AnyArray) -> list[str]:
    return sorted(set(bands.tolist()), key=lambda band: int(band.strip("[]").split(",")[0]))
