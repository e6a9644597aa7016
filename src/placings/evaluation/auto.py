"""`AutoRanker`: linear models, trees and networks tried within a budget, and the blend of the best."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    Cell,
    Floats,
    Grid,
    Ints,
    MissingExtra,
    PlacingsWarning,
    check_count,
    digest_facts,
    parse_duration,
    parse_json,
    read_array,
    read_facts,
    render_grid,
    say_seconds,
    show_progress,
    write_array,
    write_facts,
)
from placings.data import Matrix, RankingData, concat, find_clusters
from placings.evaluation.blending import choose_weights
from placings.evaluation.portfolio import CS, Candidate, Step, find_kinds, plan_steps
from placings.evaluation.runs import fingerprint
from placings.metrics import metric as as_metric
from placings.rankers import (
    LinearRanker,
    Ranker,
    RankerFacts,
    find_class,
    find_versions,
    give_member,
    load_ranker,
    make_ranker,
    measure_spread,
    take_member,
)

MAY_HOLD = ("LinearRanker", "LightGBMRanker", "CatBoostRanker", "XGBoostRanker", "NeuralRanker")
SCORES, FACTS = "scores.npy", "facts.json"  # of a kept step
MEMBERS, REPORT = "members.json", "report.json"
FEWEST = 10  # queries below which nothing can be tried out: a ridge is fitted and that is it
WATCHED = 1 / 8  # of a step's training queries are held out for early stopping
FEWEST_WATCHED = 4  # queries; with fewer to watch a ranker is trained to its end
RESERVE = 0.03  # of the budget is kept for the end


@dataclass(frozen=True)
class Tried:
    """One step that was done: the held-out queries, their scores, and what was fitted."""

    step: Step
    held: Ints  # queries of the whole data
    scores: Floats  # [settings, rows] of their rows; a linear candidate has one setting for each C
    values: Floats  # [settings, queries] of the metric
    seconds: float
    model: Ranker | None = field(repr=False)  # None for a look at a sample, and for a linear candidate


@dataclass
class Ledger:
    """All that was tried; what the schedule asks."""

    tried: dict[str, list[Tried]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def mean(self, candidate: Candidate, folds: int) -> float:
        """The mean over queries of the first folds of the first deal; −inf if the candidate failed."""
        if candidate.name in self.failed:
            return -np.inf
        done = [each for each in self.tried.get(candidate.name, []) if each.step.deal == 0]
        whole = [each for each in done if each.step.sample is None and each.step.fold < folds]
        found = whole or done
        if not found:
            return -np.inf
        return float(average_values(found).max())

    def add(self, tried: Tried) -> None:
        """Note a step that was done."""
        self.tried.setdefault(tried.step.candidate.name, []).append(tried)


class AutoRanker(Ranker):
    """The ranker for whom the data and the time decide: tried out on inner folds, then blended.

    Linear models over transforms, LightGBM, CatBoost, XGBoost and a network are fitted on all but one of
    `folds` inner folds, whole users or sessions where the data know them, and judged by `metric` on the one
    left out: first all on one fold, then the better ones on more, then settings drawn by seed. Lists that
    stop a training early are never those that judge it. The best candidates are blended by weights that are
    chosen on held-out scores and drawn towards equal ones. A blended candidate is the mean of the models of its
    folds; a linear one is fitted once more, on everything.

    `budget` ("10m", "1h30m", seconds; None for the whole schedule) only decides how far down the schedule
    `fit` gets: the next step is begun if it is expected to end in time. `steps_` says how many steps that
    were, and `steps=` repeats as many, whatever the clock says. Ctrl-C ends the search and takes the best so far.
    With `keep`, a folder, each step is kept there, and `fit` goes on where it was stopped; time that kept
    steps took counts. `kinds` names what to try ("linear", "lightgbm", "catboost", "xgboost", "neural");
    those whose library is not installed are left out. `valid` is more data to learn from: its queries join the
    folds.

    After `fit`: `members_`, what is blended, by name; `weights_` of `models_`; `steps_`; `report()` says who
    was tried, what it cost and why the winner won.

    >>> import placings as pg
    >>> data = pg.make_ranking(30, n_features=5, mean_size=8, random_state=0).data
    >>> ranker = AutoRanker(kinds=["linear"], steps=3, random_state=0).fit(data)
    >>> ranker.steps_, ranker.predict(data).shape == (data.n_rows,)
    (3, True)
    """

    facts: ClassVar[RankerFacts] = RankerFacts(
        spaces={"default": {}},  # it tunes itself
        familiar={"time_limit": ("AutoGluon", ("budget",)), "time_budget": ("FLAML", ("budget",))},
        quick={"budget": None, "steps": 2, "kinds": ("linear",), "folds": 2},
    )

    models_: tuple[Ranker, ...]
    weights_: Floats  # [models], of their scores as they are
    owners_: tuple[str, ...]  # [models], the candidate of each
    shares_: dict[str, float]  # candidate → its share of the blend
    steps_: int
    seconds_: float
    told_: dict[str, Any]  # what `report` prints

    def __init__(
        self,
        budget: str | float | None = "10m",
        *,
        steps: int | None = None,
        metric: str = "ndcg@10",
        kinds: Sequence[str] | None = None,
        folds: int = 5,
        keep: str | Path | None = None,
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.budget = budget
        self.steps = steps
        self.metric = metric
        self.kinds = kinds
        self.folds = folds
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state

    @property
    def members_(self) -> dict[str, Blend]:
        """What is blended: candidate → the mean of its models, the heaviest first."""
        return {
            name: self._blend(name) for name in sorted(self.shares_, key=lambda each: -self.shares_[each])
        }

    def report(self) -> str:
        """Who was tried, on how many folds, how good it was, what it cost, its weight; and why the winner won."""
        rows = [
            [
                each["name"],
                str(each["folds"]),
                "–" if each["mean"] is None else f"{each['mean']:.4f}",
                f"{each['seconds']:.1f}",
                f"{each['weight']:.2f}" if each["weight"] else "",
                each["note"],
            ]
            for each in self.told_["tried"]
        ]
        heads = ("tried", "folds", self.told_["metric"], "s", "weight", "")
        grid = Grid(heads, tuple(tuple(Cell(text) for text in row) for row in rows))
        return "\n".join([render_grid(grid), "", *self.told_["notes"]])

    # -- what Ranker asks for ----------------------------------------------------------------------

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        self._check_settings()
        seed = int(self.random_state or 0)
        kinds, absent = find_kinds(self.kinds)
        data = train if valid is None else join_parts(train, valid)
        ledger = Ledger()
        began = time.perf_counter()
        stopped = self._search(data, kinds, ledger, seed, began)
        if not ledger.tried:
            stopped = "nothing could be tried out, so a ridge was fitted as it is"
        self._conclude(data, ledger, seed, stopped, absent)
        self.seconds_ = time.perf_counter() - began

    def _check_settings(self) -> None:
        if self.budget is not None:
            parse_duration(self.budget)
        if self.steps is not None:
            check_count("steps", self.steps, least=1)
        check_count("folds", self.folds, least=2)
        if ":ips" in str(as_metric(self.metric)):
            raise BadInput(f"AutoRanker judges by labels as they are. Got metric={self.metric!r}.")
        find_kinds(self.kinds)

    def _weigh(self, train: RankingData) -> tuple[RankingData, dict[str, Any]]:
        """The data as they are, for members weigh clicks themselves; and what that does."""
        facts = super()._weigh(train)[1]
        return train, {name: {**each, "weighs": "members"} for name, each in facts.items()}

    def _score(self, X: Matrix) -> AnyArray:
        return self._score_lists(X, None)

    def _score_lists(self, X: Matrix, offsets: Ints | None) -> AnyArray:
        return add_scores(self.models_, self.weights_, X, offsets)

    def _looks_at_list(self) -> bool:
        return any(model.looks_at_list for model in self.models_)

    def _missing_policy(self) -> str:
        return "; ".join(
            dict.fromkeys(
                f"{o}: {m._missing_policy()}" for o, m in zip(self.owners_, self.models_, strict=True)
            )
        )

    def _plain_params(self) -> dict[str, Any]:
        params = super()._plain_params()
        kinds = None if self.kinds is None else list(self.kinds)
        return {**params, "kinds": kinds, "keep": None, "verbose": False}  # a path of this machine, a wish

    def _give_weights(self) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        facts = []
        for number, (model, weight, owner) in enumerate(
            zip(self.models_, self.weights_.tolist(), self.owners_, strict=True)
        ):
            files |= give_member(f"model{number}", model)
            settings = {n: v for n, v in model._plain_params().items() if n != "verbose"}
            facts.append(
                {"class": type(model).__name__, "settings": settings, "weight": weight, "owner": owner}
            )
        told = {"models": facts, "shares": self.shares_, "steps": self.steps_, "seconds": self.seconds_}
        return {**files, MEMBERS: json.dumps(told).encode(), REPORT: json.dumps(self.told_).encode()}

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        told = parse_json(files[MEMBERS])
        models: list[Ranker] = []
        for number, each in enumerate(told["models"]):
            if each["class"] not in MAY_HOLD:
                raise BadInput(f"{MEMBERS} names a {each['class']!r}, which no AutoRanker holds.")
            model = find_class(each["class"])(**each["settings"])
            models.append(take_member(self, model, f"model{number}", files))
        weights = np.array([float(each["weight"]) for each in told["models"]])
        if not len(weights) or not np.isfinite(weights).all() or (weights <= 0.0).any():
            raise BadInput(f"{MEMBERS} must give each model a weight above 0.")
        self.models_, self.weights_ = tuple(models), weights
        self.owners_ = tuple(str(each["owner"]) for each in told["models"])
        self.shares_ = {str(name): float(share) for name, share in told["shares"].items()}
        self.steps_, self.seconds_ = int(told["steps"]), float(told["seconds"])
        self.told_ = parse_json(files[REPORT])

    # -- the search --------------------------------------------------------------------------------

    def _search(
        self, data: RankingData, kinds: Sequence[str], ledger: Ledger, seed: int, began: float
    ) -> str:
        """Take steps until the budget, the number of steps or the schedule ends; which of them it was."""
        self.steps_ = 0
        if data.n_queries < FEWEST or data.y.max(initial=0.0) == data.y.min(initial=0.0):
            return f"{data.n_queries} queries are too few, or too alike, to try anything out on"
        limit = None if self.budget is None or self.steps is not None else parse_duration(self.budget)
        folds = min(int(self.folds), data.n_queries // 5)
        deals: dict[int, list[Ints]] = {}
        steps = plan_steps(kinds, ledger, queries=data.n_queries, folds=folds, seed=seed)
        kept = None if self.keep is None else Path(self.keep)
        prints = "" if kept is None else fingerprint(data)
        spent = 0.0  # by kept steps, in the run that did them
        with show_progress("trying", limit, rate="s", wanted=self.verbose) as bar, _quietly():
            try:
                for step in steps:
                    if self.steps is not None and self.steps_ >= self.steps:
                        return f"{self.steps_} steps were asked for"
                    took = time.perf_counter() - began + spent
                    if limit is not None and self.steps_:
                        if took + guess_seconds(step, ledger) > (1.0 - RESERVE) * limit:
                            return (
                                f"the budget of {say_seconds(limit)} had no room for step {self.steps_ + 1}"
                            )
                        bar.reach(min(took, limit))
                    bar.advance(0, title=f"{step.candidate.name}, fold {step.fold + 1}")
                    if step.deal not in deals:
                        deals[step.deal] = deal_folds(data, folds, seed + step.deal)
                    spent += self._take(step, data, deals[step.deal], ledger, seed, kept, prints)
                    self.steps_ += 1
            except KeyboardInterrupt:
                if not ledger.tried:
                    raise
                warnings.warn(
                    f"stopped after {self.steps_} steps; the best so far is taken.",
                    PlacingsWarning,
                    stacklevel=2,
                )
                return "it was stopped by hand"
        return "the schedule was at its end"

    def _take(
        self,
        step: Step,
        data: RankingData,
        parts: Sequence[Ints],
        ledger: Ledger,
        seed: int,
        kept: Path | None,
        prints: str,
    ) -> float:
        """One step, or what was kept of it; the seconds that a kept one took when it was done."""
        if step.candidate.name in ledger.failed:
            return 0.0
        place = None if kept is None else kept / name_step(step, prints, seed, self.metric, len(parts))
        found = read_step(place, step, data, parts, self.metric)
        if found is not None:
            ledger.add(found)
            return found.seconds
        try:
            tried = take_step(step, data, parts, seed, self.metric)
        except MissingExtra:
            raise
        except Exception as error:  # one that cannot cope with the data must not end the search
            ledger.failed[step.candidate.name] = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            return 0.0
        if place is not None:
            keep_step(place, tried)
        ledger.add(tried)
        return 0.0

    def _conclude(
        self, data: RankingData, ledger: Ledger, seed: int, stopped: str, absent: Sequence[str]
    ) -> None:
        judge = as_metric(self.metric)
        field_ = pick_field(ledger)
        if not field_:
            plain = Candidate(
                "ridge over quantile_normal", "linear", "ridge", {"transform": "quantile_normal"}
            )
            if not isinstance(data.X, np.ndarray):
                plain = Candidate("ridge", "linear", "ridge", {})
            self.shares_ = {plain.name: 1.0}
            self._take_models([(plain.name, [make_linear(plain, 1.0).fit(data)], [1.0], 1.0)])
            self._tell(ledger, stopped, absent, {})
            return
        matrix, labels, offsets = gather_scores(field_, data)
        names = list(field_)
        weights = choose_weights(matrix, labels, offsets, judge, seed=seed)
        alone = {name: _mean(judge(row, labels, offsets)) for name, row in zip(names, matrix, strict=True)}
        together = _mean(judge(weights @ matrix, labels, offsets))
        leader = max(alone, key=lambda name: alone[name])
        if together < alone[leader]:  # a blend that does not even win where it was chosen
            weights = np.array([float(name == leader) for name in names])
        self.shares_ = {name: float(w) for name, w in zip(names, weights, strict=True) if w > 0.0}
        chosen = []
        for name, share in self.shares_.items():
            models, scales = finish(field_[name], data)
            chosen.append((name, models, scales, share))
        self._take_models(chosen)
        facts = {"blend": together, "leader": alone[leader], "name": leader, "queries": len(offsets) - 1}
        self._tell(ledger, stopped, absent, facts)

    def _take_models(self, chosen: Sequence[tuple[str, Sequence[Ranker], Sequence[float], float]]) -> None:
        models, weights, owners = [], [], []
        for name, own, scales, share in chosen:
            models += list(own)
            weights += [share / (len(own) * scale) for scale in scales]
            owners += [name] * len(own)
        self.models_, self.weights_, self.owners_ = tuple(models), np.array(weights), tuple(owners)

    def _blend(self, name: str) -> Blend:
        places = [place for place, owner in enumerate(self.owners_) if owner == name]
        return Blend(tuple(self.models_[p] for p in places), self.weights_[places], self.feature_names_)

    def _tell(self, ledger: Ledger, stopped: str, absent: Sequence[str], facts: Mapping[str, Any]) -> None:
        tried = []
        for name, done in ledger.tried.items():
            whole = [each for each in done if each.step.sample is None]
            mean = float(average_values(whole or done).max())
            note = "" if whole else f"on a sample of {done[0].step.sample:,} queries"
            if done[0].step.candidate.kind == "linear":
                note = f"C = {CS[choose_setting(whole or done)]:g}"
            tried.append(
                {
                    "name": name, "kind": done[0].step.candidate.kind, "folds": len(whole), "mean": mean,
                    "seconds": round(sum(each.seconds for each in done), 3),
                    "weight": round(self.shares_.get(name, 0.0), 4), "note": note,
                    "settings": dict(done[0].step.candidate.settings),
                }
            )  # fmt: skip
        for name, why in ledger.failed.items():
            done = ledger.tried.get(name, [])
            tried = [each for each in tried if each["name"] != name]
            tried.append(
                {
                    "name": name, "kind": "", "folds": len(done), "mean": None, "weight": 0.0, "settings": {},
                    "seconds": round(sum(each.seconds for each in done), 3), "note": f"failed: {why}",
                }
            )  # fmt: skip
        notes = [f"{self.steps_} steps: {stopped}."]
        if facts and len(self.shares_) > 1:
            notes.append(
                f"The blend of {len(self.shares_)} has {self.metric} {facts['blend']:.4f} on {facts['queries']:,} "
                f"held-out queries, the best alone ({facts['name']}) {facts['leader']:.4f}. The weights were chosen "
                "on these queries, so the blend's figure is a little too good."
            )
        elif facts:
            notes.append(
                f"{facts['name']} alone won: no blend was better on {facts['queries']:,} held-out queries."
            )
        notes += [f"Left out, not installed: {', '.join(absent)}."] if absent else []
        notes.append(f"The mean of {self.metric} is over queries with something relevant.")
        self.told_ = {"metric": self.metric, "tried": tried, "notes": notes}


@dataclass(frozen=True)
class Blend:
    """Some models of an AutoRanker and their weights: one member of the blend, which scores rows by itself."""

    models: tuple[Ranker, ...]
    weights: Floats
    feature_names: tuple[str, ...]

    def predict(self, X: Any, qid: Any = None) -> Floats:
        """Scores `[rows]` as this member alone would give them."""
        total: Floats = np.zeros(len(X.y) if isinstance(X, RankingData) else np.shape(X)[0])
        for model, weight in zip(self.models, self.weights.tolist(), strict=True):
            total += weight * model.predict(X, qid)
        return total


def add_scores(models: Sequence[Ranker], weights: Floats, X: Matrix, offsets: Ints | None) -> Floats:
    """The weighted sum of the models' scores `[rows]`."""
    total: Floats = np.zeros(X.shape[0])
    for model, weight in zip(models, weights.tolist(), strict=True):
        total += weight * np.asarray(model._score_lists(X, offsets), dtype=np.float64)
    return total


# -- folds -----------------------------------------------------------------------------------------


def join_parts(train: RankingData, valid: RankingData) -> RankingData:
    """Both as one; queries of the two parts are other queries even if they are numbered alike."""
    if np.intersect1d(train.qids.astype(str), valid.qids.astype(str)).size:
        train = train.replace(qids=np.array([f"train {qid}" for qid in train.qids.tolist()], dtype=object))
        valid = valid.replace(qids=np.array([f"valid {qid}" for qid in valid.qids.tolist()], dtype=object))
    return concat([train, valid])


def deal_folds(data: RankingData, folds: int, seed: int) -> list[Ints]:
    """The queries of each fold: whole users or sessions where the data know them, dealt by seed."""
    clusters = find_clusters(data)
    codes = np.arange(data.n_queries) if clusters is None else clusters.codes
    units = np.unique(codes)
    if len(units) < 2 * folds:  # too few people to keep them apart
        codes, units = np.arange(data.n_queries), np.arange(data.n_queries)
    parts = np.array_split(np.random.default_rng([seed, 17]).permutation(units), folds)
    return [np.flatnonzero(np.isin(codes, part)) for part in parts]


def cut_step(
    step: Step, data: RankingData, parts: Sequence[Ints], seed: int
) -> tuple[RankingData, RankingData | None, Ints]:
    """What a step trains on, what it watches to stop early, and the queries that judge it."""
    held = parts[step.fold]
    rest = np.sort(np.concatenate([part for place, part in enumerate(parts) if place != step.fold]))
    rng = np.random.default_rng([seed, step.deal, step.fold, 23])
    if step.sample is not None and len(rest) > step.sample:
        rest = np.sort(rng.choice(rest, step.sample, replace=False))
    watched = round(WATCHED * len(rest))
    if not step.candidate.stops or watched < FEWEST_WATCHED:
        return data[rest], None, held
    mixed = rng.permutation(rest)
    return data[np.sort(mixed[watched:])], data[np.sort(mixed[:watched])], held


def take_step(step: Step, data: RankingData, parts: Sequence[Ints], seed: int, metric: str) -> Tried:
    """Fit a candidate without a fold and score that fold."""
    began = time.perf_counter()
    train, watched, held = cut_step(step, data, parts, seed)
    lists = data[held]
    model: Ranker | None = None
    if step.candidate.kind == "linear":
        scores = score_path(step.candidate, train, lists)
    else:
        number = (1_000_003 * seed + 1009 * step.deal + step.fold) % 2**32
        model = make_ranker(step.candidate.ranker, **{**step.candidate.settings, "random_state": number})
        if "metric" in model.get_params(deep=False):
            model.set_params(metric=metric)
        scores = model.fit(train, valid=watched).predict(lists)[None, :]
    values = judge_all(scores, lists, metric)
    seconds = time.perf_counter() - began
    return Tried(step, held, scores, values, seconds, None if step.sample is not None else model)


def score_path(candidate: Candidate, train: RankingData, lists: RankingData) -> Floats:
    """The scores that a linear candidate gives held-out lists at every C, `[Cs, rows]`; one transform for all."""
    first = make_linear(candidate, CS[0]).fit(train)
    transform = first.transform_
    if transform is not None:
        names = tuple(map(str, transform.get_feature_names_out()))
        train = train.replace(X=transform.transform(train), feature_names=names)
        lists = lists.replace(X=transform.transform(lists), feature_names=names)
    return np.stack([LinearRanker("ridge", C=C).fit(train).predict(lists) for C in CS])


def judge_all(scores: Floats, lists: RankingData, metric: str) -> Floats:
    """The metric of each setting's scores, `[settings, queries]`."""
    judge = as_metric(metric)
    return np.stack([judge(row, lists.y, lists.offsets) for row in scores])


def average_values(done: Sequence[Tried]) -> Floats:
    """The mean over all queries of these steps, `[settings]`; 0 where no query has a value."""
    values = np.concatenate([each.values for each in done], axis=1)
    there = ~np.isnan(values)
    return np.where(there, values, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)


def choose_setting(done: Sequence[Tried]) -> int:
    """The setting (of a linear candidate, the C) with the highest mean over all folds done."""
    return int(np.argmax(average_values(done)))


def scale_scores(tried: Tried, setting: int, data: RankingData) -> tuple[Floats, float]:
    """A step's scores divided by how far they lie apart within a list, and that number."""
    spread = measure_spread(tried.scores[setting], data[tried.held].offsets)
    scale = spread if spread > 0.0 and np.isfinite(spread) else 1.0
    return tried.scores[setting] / scale, scale


def make_linear(candidate: Candidate, C: float) -> LinearRanker:
    """The linear ranker of a candidate at this C."""
    made = make_ranker(candidate.ranker, C=C, **candidate.settings)
    assert isinstance(made, LinearRanker)
    return made


def guess_seconds(step: Step, ledger: Ledger) -> float:
    """How long a step may take, by those of the same candidate, or else of the same kind."""
    own = [
        t.seconds
        for t in ledger.tried.get(step.candidate.name, [])
        if (t.step.sample is None) == (step.sample is None)
    ]
    if own:
        return max(own)
    kin = [
        t.seconds
        for done in ledger.tried.values()
        for t in done
        if t.step.candidate.kind == step.candidate.kind and (t.step.sample is None) == (step.sample is None)
    ]
    return float(np.mean(kin)) if kin else 0.0


# -- the end ---------------------------------------------------------------------------------------


def pick_field(ledger: Ledger) -> dict[str, list[Tried]]:
    """Who may enter the blend: the two best of each kind that have as many whole folds as most kinds' best."""
    whole = {
        name: [t for t in done if t.step.sample is None]
        for name, done in ledger.tried.items()
        if name not in ledger.failed
    }
    if not any(whole.values()):  # only looks at a sample: take them as they are
        whole = {name: list(done) for name, done in ledger.tried.items() if name not in ledger.failed}
    count = {name: len({t.step.fold for t in done if t.step.deal == 0}) for name, done in whole.items()}
    most: dict[str, int] = {}
    for name, done in whole.items():
        if done:
            kind = done[0].step.candidate.kind
            most[kind] = max(most.get(kind, 0), count[name])
    if not most:
        return {}
    depth = sorted(most.values(), reverse=True)[(len(most) - 1) // 2]  # what half of the kinds have reached
    ranked = sorted(
        (name for name in whole if count[name] >= depth and depth > 0),
        key=lambda name: -ledger.mean(whole[name][0].step.candidate, depth),
    )
    found: dict[str, list[Tried]] = {}
    for name in ranked:
        kind = whole[name][0].step.candidate.kind
        if sum(done[0].step.candidate.kind == kind for done in found.values()) < 2:
            found[name] = whole[name]
    return found


def gather_scores(field_: Mapping[str, Sequence[Tried]], data: RankingData) -> tuple[Floats, Floats, Ints]:
    """Held-out scores `[members, rows]` of the folds that all have, with labels and offsets.

    Where a candidate was fitted on several deals of the folds, its scores of a list are averaged.
    """
    shared = set.intersection(*({int(q) for t in done for q in t.held} for done in field_.values()))
    queries = np.array(sorted(shared), dtype=np.int64)
    lists = data[queries]
    rows = []
    for done in field_.values():
        total, often = np.zeros(data.n_rows), np.zeros(data.n_rows)
        setting = choose_setting(done)
        for tried in done:
            places = list_rows(data, tried.held)
            total[places] += scale_scores(tried, setting, data)[0]
            often[places] += 1.0
        mine = list_rows(data, queries)
        rows.append(total[mine] / np.maximum(often[mine], 1.0))
    return np.stack(rows), lists.y, lists.offsets


def list_rows(data: RankingData, queries: Ints) -> Ints:
    """The rows of these queries, in their order."""
    found = [np.arange(data.offsets[q], data.offsets[q + 1]) for q in queries.tolist()]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def finish(done: Sequence[Tried], data: RankingData) -> tuple[list[Ranker], list[float]]:
    """The models that stand for a candidate, and the scale of each one's scores."""
    candidate = done[0].step.candidate
    if candidate.kind == "linear":
        model = make_linear(candidate, CS[choose_setting(done)]).fit(data)
        return [model], [measure_spread(model.predict(data), data.offsets) or 1.0]
    whole = [each for each in done if each.model is not None]
    if not whole:  # only a look at a sample was taken
        raise BadInput("the budget ended before anything was fitted on whole folds. Give it more time.")
    return [each.model for each in whole if each.model], [scale_scores(each, 0, data)[1] for each in whole]


def _mean(values: Floats) -> float:
    return float(np.nanmean(values)) if not np.isnan(values).all() else 0.0


def _quietly() -> Any:
    """Warnings of single trials are not the user's: what fails stands in the report."""
    caught = warnings.catch_warnings()

    class Quiet:
        def __enter__(self) -> None:
            caught.__enter__()
            warnings.simplefilter("ignore")

        def __exit__(self, *about: Any) -> None:
            caught.__exit__(*about)

    return Quiet()


# -- kept steps ------------------------------------------------------------------------------------


def name_step(step: Step, prints: str, seed: int, metric: str, folds: int) -> str:
    """The folder of a step: named after all that could change it."""
    made_of = {
        "candidate": [step.candidate.name, step.candidate.ranker, dict(step.candidate.settings)],
        "step": [step.deal, step.fold, step.sample], "data": prints, "seed": seed, "metric": metric,
        "folds": folds, "versions": find_versions(),
    }  # fmt: skip
    return f"step-{digest_facts(made_of)}"


def keep_step(place: Path, tried: Tried) -> None:
    """Write a step; the facts come last, so that half a step is none."""
    place.mkdir(parents=True, exist_ok=True)
    write_array(place / SCORES, tried.scores.ravel())
    if tried.model is not None:
        tried.model.save(place / "model")
    write_facts(place / FACTS, {"seconds": tried.seconds, "settings": len(tried.scores)})


def read_step(
    place: Path | None, step: Step, data: RankingData, parts: Sequence[Ints], metric: str
) -> Tried | None:
    """A step that was kept; None if there is none, or not all of it."""
    facts = None if place is None else read_facts(place / FACTS)
    if place is None or facts is None:
        return None
    held = parts[step.fold]
    lists = data[held]
    count = int(facts["settings"])
    flat = read_array(place / SCORES, count * lists.n_rows)
    wants_model = step.sample is None and step.candidate.kind != "linear"
    if flat is None or (wants_model and not (place / "model").is_dir()):
        return None
    scores = np.array(flat).reshape(count, lists.n_rows)
    model = load_ranker(place / "model") if wants_model else None
    return Tried(step, held, scores, judge_all(scores, lists, metric), float(facts["seconds"]), model)
