"""The coverage paper's experiment: what a drop in coverage costs, on MSLR's sample and on generated data.

`study_coverage_drop()` masks features 8, 55, 134, 108, 127, 128 and 130 of MSLR's 71 shared queries in five
query folds, and features of known worth in generated data of about 100,000 rows, in the test data alone and
in training and test data, for LightGBM and linear rankers, and writes the paper's tables.

Gope, Sugandharaju, Kotalwar and Salaka, Measuring feature quality for improved ranking performance, SIGIR
eCom 2023, Tables 1 and 2, Figures 1 and 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import (
    BadFile,
    BadInput,
    Cell,
    Floats,
    Grid,
    MissingExtra,
    UnknownName,
    check_count,
    format_difference,
    format_interval,
    format_mean,
    interval_means,
    keep_cell,
    keep_old_names,
    plain_value,
    render_grid,
    write_json,
    write_text,
)
from placings.data import RankingData, concat, read
from placings.evaluation import Importance, fingerprint, list_versions
from placings.feco import (
    Correlation,
    Correlations,
    Degradation,
    Effect,
    Relation,
    correlate_coverage,
    degrade,
    join_degradations,
    relate_importance,
)
from placings.rankers import Ranker, make_ranker
from placings.simulate import make_ranking

FIELDS = ("feature", "chosen", "where", "drop", "draws", "units", "coverage_before", "coverage_after")


def pack_degradation(found: Degradation) -> dict[str, Any]:
    """A degradation with the values of each query, as plain values; NaN becomes null."""
    return {
        "baseline": {
            where: {name: values.tolist() for name, values in each.items()}
            for where, each in found.baseline.items()
        },
        "effects": [
            {field: getattr(each, field) for field in FIELDS}
            | {
                "values": {name: values.tolist() for name, values in each.values.items()},
                "spread": dict(each.spread),
                "importance": None if each.importance is None else dict(each.importance),
            }
            for each in found.effects
        ],
        "settings": dict(found.settings),
        "importance": None if found.importance is None else found.importance.to_dict(),
    }


def unpack_degradation(facts: Mapping[str, Any]) -> Degradation:
    """The reverse of `pack_degradation`."""
    effects = tuple(
        Effect(
            **{field: each[field] for field in FIELDS},
            values={name: _as_floats(values) for name, values in each["values"].items()},
            spread=each["spread"],
            importance=each["importance"],
        )
        for each in facts["effects"]
    )
    baseline = {
        where: {name: _as_floats(values) for name, values in each.items()}
        for where, each in facts["baseline"].items()
    }
    known = facts["importance"]
    importance = None
    if known is not None:
        names = tuple(each["feature"] for each in known["features"])
        values = np.array([each["value"] for each in known["features"]], dtype=np.float64)
        importance = Importance(known["kind"], known["meaning"], names, values)
    return Degradation(baseline, effects, facts["settings"], importance)


def pack_correlations(found: Correlations) -> dict[str, Any]:
    """Correlations with the points behind them, as plain values."""
    return {**found.to_dict(), "points": found.points.to_dict("list")}


def unpack_correlations(facts: Mapping[str, Any]) -> Correlations:
    """The reverse of `pack_correlations`; null is NaN."""
    from placings.core import need_library

    points = need_library("pandas", "the coverage study").DataFrame(facts["points"])
    found = []
    for each in facts["correlations"]:
        fields: dict[str, Any] = {name: np.nan if value is None else value for name, value in each.items()}
        found.append(Correlation(**fields))
    return Correlations(tuple(found), points, facts["note"])


def _as_floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def join_features(parts: Sequence[Degradation]) -> Degradation:
    """Degradations of different features on the same data and `where`, as one."""
    effects = tuple(effect for part in parts for effect in part.effects)
    return replace(parts[0], effects=effects)


def join_places(parts: Sequence[Degradation]) -> Degradation:
    """Degradations with different `where` of the same features, as one table; the last importance counts."""
    baseline = {where: values for part in parts for where, values in part.baseline.items()}
    draws = {where: count for part in parts for where, count in part.settings["draws"].items()}
    effects = tuple(effect for part in parts for effect in part.effects)
    settings = {**parts[0].settings, "draws": draws, "where": list(baseline)}
    return Degradation(baseline, effects, settings, parts[-1].importance)


def join_folds(parts: Sequence[Sequence[Degradation]]) -> Degradation:
    """Folds of parts of features: features first, then folds, so that all queries are tested at once."""
    return join_degradations([join_features(fold) for fold in parts])


IDS = (8, 55, 134, 108, 127, 128, 130)  # MSLR counts from 1; the paper's cols_n seem to be 2·id − 1
PARTS = ("mslr", "generated")
SETTINGS: dict[str, dict[str, Any]] = {"lightgbm": {"rounds": 150, "n_jobs": 1}}
Fold = tuple[RankingData, RankingData]


@dataclass(frozen=True)
class DropPlan:
    """What is asked of one data set: its folds, the features with their labels, and how often to draw."""

    name: str
    title: str
    folds: Sequence[Fold]
    features: Mapping[str, str]  # name → how it was chosen
    units: Mapping[str, Sequence[str]]  # unit → where
    by_feature: bool  # one cell a feature (large data) or all in one


@dataclass(frozen=True, eq=False)
class Study:
    """The tables: `tables[data, ranker, unit]`, and for the event unit the two questions of §4.3 and §4.2."""

    plans: Sequence[DropPlan]
    tables: Mapping[tuple[str, str, str], Degradation]
    relations: Mapping[tuple[str, str], Relation]
    correlations: Mapping[tuple[str, str], Correlations]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_markdown(self) -> str:
        """One section a data set and ranker, one table a masked unit."""
        return self.report("markdown")

    def report(self, format: str = "text") -> str:
        """The same with its tables as "text" or "markdown"."""
        lines = ["# What a drop in coverage costs", ""]
        for plan in self.plans:
            lines += [f"## {plan.title}", "", "### All rankers, the event masked in test data", ""]
            lines += [self.compare_rankers(plan, format), ""]
            for (data, ranker, unit), found in self.tables.items():
                if data == plan.name:
                    lines += [f"### {ranker}, the {unit} masked", "", found.table(format), ""]
            for (data, ranker), relation in self.relations.items():
                if data == plan.name:
                    lines += [f"### {ranker}: importance against impact", "", f"{relation!r}.", ""]
            for (data, ranker), found_all in self.correlations.items():
                if data == plan.name:
                    lines += [f"### {ranker}: coverage against NDCG", "", found_all.table(format), ""]
        return "\n".join(lines)

    def compare_rankers(self, plan: DropPlan, format: str = "text", metric: str = "ndcg@8") -> str:
        """A column a ranker: its metric on the full data, and what each feature's largest drop takes."""
        found = {
            ranker: table
            for (data, ranker, unit), table in self.tables.items()
            if data == plan.name and unit == "event"
        }
        full = np.stack([table.baseline["test"][metric] for table in found.values()], axis=1)
        ends = interval_means(full, bounds=[(0.0, 1.0)] * len(found))
        means = [
            Cell(f"{format_mean(mean)} {format_interval(low, high)}")
            for mean, low, high in zip(np.nanmean(full, axis=0), *ends, strict=True)
        ]
        rows = [(Cell("full data"), *means)]
        drop = max(next(iter(found.values())).settings["drops"])
        for name, chosen in plan.features.items():
            losses = [table.loss(name, drop, metric, "test") for table in found.values()]
            cells = [
                Cell(
                    f"{format_difference(-each.lost)} {format_interval(-each.high, -each.low, signed=True)}",
                    each.mark,
                )
                for each in losses
            ]
            rows.append((Cell(name if chosen == "named" else f"{name} ({chosen})"), *cells))
        note = (
            f"{metric} on the full data, and by how much it changes where a feature is gone from {drop:.0%} "
            "of the events that have it; 95 % intervals, marks as in the tables below. Queries without "
            "anything relevant are left out."
        )
        return render_grid(Grid((f"{drop:.0%} dark", *found), tuple(rows), (note,)), format)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values of each query."""

        def named(found: Mapping[Any, Any]) -> list[dict[str, Any]]:
            return [{"of": list(key), **each.to_dict()} for key, each in found.items()]

        return {
            "settings": dict(self.settings),
            "tables": named(self.tables),
            "relations": named(self.relations),
            "correlations": named(self.correlations),
        }


def study_coverage_drop(
    path: str | Path | None = None,
    out: str | Path | None = None,
    *,
    parts: Sequence[str] = PARTS,
    rankers: Sequence[str] = ("lightgbm", "ridge", "ridge:quantile_normal"),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    ids: Sequence[int] = IDS,
    drops: Sequence[float] = (0.05, 0.25, 0.5),
    folds: int = 5,
    draws: Mapping[str, int] | None = None,
    queries: int = 840,
    compared: int = 20,
    random_state: int = 0,
    progress: bool = False,
) -> Study:
    """Run the experiment, or what of it is not kept in `out` yet; write `coverage_drop.md` and `.json` there.

    `rankers` are short names; `"ridge:gauss"` is a ridge over a transform.
    `path` is the folder of MSLR's sample (train and vali files; default `$PLACINGS_DATA/ltr/mslr_sample`, or
    `../shared/data` in place of the variable). `queries` is the size of the generated data: 840 give about
    100,000 rows, half of them to train on. The `compared` most important features of each ranker answer
    whether importance tells impact. `settings` are a ranker's, over `SETTINGS`. Each cell (data, ranker,
    unit, where, fold, features) is one JSON file under `out/cells`: a run that was stopped goes on there.
    """
    for part in parts:
        if part not in PARTS:
            raise UnknownName("part of the study", str(part), PARTS)
    if not parts or not rankers:
        raise BadInput("the study needs at least one part and one ranker. Got none.")
    check_count("compared", compared, least=3)
    chosen = {
        name: make_ranker(name, **{**SETTINGS.get(name, {}), **(settings or {}).get(name, {})})
        for name in rankers
    }
    for each in chosen.values():
        each._check_settings()
    home = None if out is None else Path(out)
    if home is not None:
        home.mkdir(parents=True, exist_ok=True)
    asked = {"drops": list(drops), "draws": draws, "random_state": random_state}
    store = DropCells(None if home is None else home / "cells", chosen, asked, progress)
    plans = []
    if "mslr" in parts:
        plans.append(plan_mslr(path, ids, folds, random_state))
    if "generated" in parts:
        plans.append(plan_generated(queries, store, random_state))
    tables, relations, correlations = {}, {}, {}
    for plan in plans:
        for ranker in chosen:
            for unit, places in plan.units.items():
                tables[plan.name, ranker, unit] = store.fill_table(plan, ranker, unit, places)
            relations[plan.name, ranker] = store.relate(plan, ranker, compared)
            correlations[plan.name, ranker] = store.correlate(plan, ranker)
    everything = {
        **asked, "folds": folds, "queries": queries, "versions": list_versions(),
        "rankers": {name: plain_value(each.get_params(deep=False)) for name, each in chosen.items()},
    }  # fmt: skip
    study = Study(plans, tables, relations, correlations, everything)
    if home is not None:
        write_text(home / "coverage_drop.md", study.to_markdown() + "\n")
        write_text(home / "coverage_drop.json", write_json(study.to_dict()) + "\n")
        _draw(study, home)
    return study


# -- data ----------------------------------------------------------------------------------------------


def plan_mslr(path: str | Path | None, ids: Sequence[int], folds: int, random_state: int) -> DropPlan:
    """All queries of the sample in query folds; features are called "134 Query-url click count"."""
    folder = Path(path) if path is not None else find_data() / "ltr" / "mslr_sample"
    files = [
        next(iter(sorted(folder.glob(f"{part}.txt*"))), folder / f"{part}.txt") for part in ("train", "vali")
    ]
    for file in files:
        if not file.is_file():
            raise BadFile(file, "no such file. Name the folder of MSLR's sample, or set PLACINGS_DATA.")
    data = concat([read(file) for file in files])
    wrong = [each for each in ids if not 1 <= each <= data.n_features]
    if wrong:
        raise BadInput(f"MSLR's features are numbered from 1 to {data.n_features}. Got {wrong}.")
    data = data.replace(feature_names=[f"{n} {name}" for n, name in enumerate(data.feature_names, 1)])
    both = ("test", "train+test")
    dealt = [(train, test) for train, test in data.folds(folds, random_state=random_state)]
    title = f"MSLR's sample: {data.n_queries} queries, {data.n_rows:,} rows, {folds} folds"
    features = {data.feature_names[each - 1]: "named" for each in ids}
    return DropPlan("mslr", title, dealt, features, {"event": both, "row": both}, by_feature=False)


def find_data() -> Path:
    """`$PLACINGS_DATA`, or `../shared/data`."""
    return Path(os.environ.get("PLACINGS_DATA") or "../shared/data")


def plan_generated(queries: int, store: DropCells, random_state: int) -> DropPlan:
    """Generated data, half to train on; the first ranker's top features and one without a signal."""
    made = make_ranking(queries, random_state=random_state)
    train, test = made.data.split(0.5, 0.5, random_state=random_state)
    ranker = next(iter(store.rankers))
    kept = store.keep("generated", ranker, "top", train, lambda: store.rank_features(ranker, train))
    names = list(kept["importance"])
    rng = np.random.default_rng(random_state)
    features = {name: f"top {place}" for place, name in enumerate(names[:3], 1)}
    features[names[int(rng.integers(3, min(10, len(names))))]] = "random of top 10"
    features[next(planted.name for planted in made.truth if planted.scale is None)] = "no signal"
    title = f"Generated: {made.data.n_queries} queries, {made.data.n_rows:,} rows, half of them to train on"
    units = {"event": ("test", "train+test"), "row": ("test",)}
    return DropPlan("generated", title, [(train, test)], features, units, by_feature=True)


# -- cells ---------------------------------------------------------------------------------------------


class OutOfFold:
    """Scores each query with the ranker of the fold that did not train on it."""

    def __init__(self, rankers: Sequence[Ranker], tests: Sequence[RankingData]) -> None:
        self.rankers = list(rankers)
        self.fold = {qid: place for place, test in enumerate(tests) for qid in test.qids.tolist()}

    def predict(self, data: RankingData) -> Floats:
        """Scores `[rows]`."""
        fold = np.array([self.fold[qid] for qid in data.qids.tolist()])
        scores = np.empty(data.n_rows)
        for place, ranker in enumerate(self.rankers):
            rows = np.repeat(fold == place, data.sizes)
            scores[rows] = ranker.predict(data[fold == place])
        return scores


@dataclass(frozen=True)
class DropCells:
    """Where cells are made and kept."""

    folder: Path | None
    rankers: Mapping[str, Ranker]
    asked: Mapping[str, Any]
    progress: bool
    fitted: dict[tuple[str, str, int], Ranker] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=list_versions)

    def keep(
        self, plan: str, ranker: str, what: str, data: RankingData, make: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """A cell, keyed by what it is made of."""
        facts = {
            "what": what, "data": fingerprint(data), "names": data.feature_names, "asked": dict(self.asked),
            "ranker": self.rankers[ranker].get_params(deep=False), "versions": dict(self.versions),
        }  # fmt: skip
        return keep_cell(self.folder, f"{plan} {ranker} {what}", facts, make)

    def fit(self, plan: DropPlan, ranker: str, fold: int) -> Ranker:
        """The ranker of a fold, trained once."""
        key = (plan.name, ranker, fold)
        if key not in self.fitted:
            self.fitted[key] = self._clone(ranker).fit(plan.folds[fold][0])
        return self.fitted[key]

    def fill_table(self, plan: DropPlan, ranker: str, unit: str, places: Sequence[str]) -> Degradation:
        """All features, drops and folds of one ranker and unit."""
        names = list(plan.features)
        groups = [[name] for name in names] if plan.by_feature else [names]
        joined = []
        for where in places:
            parts = [
                [self._degrade(plan, ranker, unit, where, fold, group) for group in groups]
                for fold in range(len(plan.folds))
            ]
            joined.append(join_folds(parts))
        whole = join_places(joined)
        labelled = [replace(each, chosen=plan.features[each.feature]) for each in whole.effects]
        return replace(whole, effects=tuple(labelled))

    def relate(self, plan: DropPlan, ranker: str, compared: int) -> Relation:
        """Importance against impact, over the most important features of all folds together."""
        ranked = [self._rank(plan, ranker, fold) for fold in range(len(plan.folds))]
        mean = {
            name: float(np.mean([each["importance"][name] for each in ranked]))
            for name in ranked[0]["importance"]
        }
        names = sorted(mean, key=lambda name: -mean[name])[:compared]
        parts = [
            [self._degrade(plan, ranker, "event", "test", fold, names, drops=(1.0,))]
            for fold in range(len(plan.folds))
        ]
        return relate_importance(join_folds(parts), "ndcg@8")

    def correlate(self, plan: DropPlan, ranker: str) -> Correlations:
        """Coverage against NDCG@8 over a grid, every query scored by a ranker that did not see it."""
        tests = [test for _, test in plan.folds]
        whole = tests[0] if len(tests) == 1 else concat(tests)
        draws = (self.asked["draws"] or {}).get("test", 20)

        def make() -> dict[str, Any]:
            fitted = [self.fit(plan, ranker, fold) for fold in range(len(tests))]
            judge: Any = fitted[0] if len(tests) == 1 else OutOfFold(fitted, tests)
            seed = self.asked["random_state"]
            found = correlate_coverage(judge, whole, list(plan.features), draws=draws, random_state=seed)
            return pack_correlations(found)

        what = f"correlation {' '.join(plan.features)}"
        return unpack_correlations(self.keep(plan.name, ranker, what, whole, make))

    def rank_features(self, ranker: str, train: RankingData) -> dict[str, Any]:
        """Importances of a ranker trained on these data, largest first."""
        return _list_importance(self._clone(ranker).fit(train), train)

    def _rank(self, plan: DropPlan, ranker: str, fold: int) -> dict[str, Any]:
        train = plan.folds[fold][0]
        what = f"importance fold{fold + 1}"
        return self.keep(
            plan.name, ranker, what, train, lambda: _list_importance(self.fit(plan, ranker, fold), train)
        )

    def _degrade(
        self,
        plan: DropPlan,
        ranker: str,
        unit: str,
        where: str,
        fold: int,
        names: Sequence[str],
        drops: Sequence[float] | None = None,
    ) -> Degradation:
        train, test = plan.folds[fold]
        shares = tuple(self.asked["drops"]) if drops is None else tuple(drops)

        def make() -> dict[str, Any]:
            found = degrade(
                self.fit(plan, ranker, fold), train, test, list(names), drops=shares, where=where, unit=unit,
                draws=self.asked["draws"], random_state=self.asked["random_state"], progress=self.progress,
            )  # fmt: skip
            return pack_degradation(found)

        what = f"{unit} {where} fold{fold + 1} {len(shares)} {shares[-1]:g} {' '.join(names)}"
        both = concat([train, test])
        return unpack_degradation(self.keep(plan.name, ranker, what, both, make))

    def _clone(self, ranker: str) -> Ranker:
        from sklearn.base import clone

        fresh: Ranker = clone(self.rankers[ranker])
        return fresh.set_params(random_state=self.asked["random_state"])


def _list_importance(ranker: Ranker, train: RankingData) -> dict[str, Any]:
    from placings.feco import Subject, weigh_features

    found = weigh_features(Subject(ranker), None, train)(needed=True)
    assert found is not None
    return {"kind": found.kind, "importance": {name: found[name] for name in found.names}}


def _draw(study: Study, home: Path) -> None:
    """Figures beside the tables, where matplotlib is installed."""
    from placings.report import draw_degradation, draw_importances

    try:
        for (data, ranker, unit), found in study.tables.items():
            named = ranker.replace(":", "_")  # a colon is no letter of a file name everywhere
            write_text(home / f"drop_{data}_{named}_{unit}.svg", draw_degradation(found, "ndcg@8") + "\n")
            if "train+test" in found.baseline and ranker == "lightgbm" and unit == "event":
                known = found.importance
                assert known is not None
                masked = max({each.feature for each in found.effects}, key=lambda name: known[name])
                drop = min(found.settings["drops"])
                text = draw_importances(found.importances(), masked, drop)
                write_text(home / f"importances_{data}_{ranker}.svg", text + "\n")
    except MissingExtra:
        return


__getattr__ = keep_old_names(__name__, {"run_study": "study_coverage_drop"})
