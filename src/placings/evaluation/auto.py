"""`AutoRanker`: linear models, trees and networks tried within a budget, and the blend of the best."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    check_count,
    parse_duration,
    parse_json,
    render_grid,
    say_seconds,
    show_progress,
)
from placings.data import Matrix, RankingData, concat
from placings.evaluation.debiasing import check_propensity
from placings.evaluation.inner_trials import (
    CS,
    OutOfTime,
    Tried,
    average_values,
    choose_setting,
    deal_folds,
    keep_step,
    make_linear,
    name_step,
    read_step,
    scale_scores,
    take_step,
)
from placings.evaluation.portfolio import LOOK, Candidate, Step, find_kinds, plan_steps
from placings.evaluation.runs import fingerprint
from placings.metrics import metric as as_metric
from placings.rankers import (
    Ranker,
    RankerFacts,
    choose_weights,
    find_class,
    give_member,
    measure_spread,
    take_member,
)

MAY_HOLD = ("LinearRanker", "LightGBMRanker", "CatBoostRanker", "XGBoostRanker", "NeuralRanker")
MEMBERS, REPORT = "members.json", "report.json"
FEWEST = 10  # queries below which nothing can be tried out: a ridge is fitted and that is it
WHOLE_TAKES = 2.5  # how long a tree's fit on everything takes, in fits without a fold: it gets more rounds
WHOLE_TAKES_NETWORK = 1.5
RESERVE = 0.04  # of the budget is kept for the end
LONGEST_REASON = 200  # letters of an error that a candidate fell out for
MOST_OF_KIND = 3  # candidates of a kind in the blend
MOST_WEIGHING = 3000  # held-out queries that choose the weights of the blend; more would only take longer


@dataclass
class Ledger:
    """All that was tried; what the schedule asks."""

    tried: dict[str, list[Tried]] = field(default_factory=dict)
    whole: dict[str, Tried] = field(default_factory=dict)  # fitted on everything
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, tried: Tried) -> None:
        """Note a step that was done."""
        if tried.step.whole:
            self.whole[tried.step.candidate.name] = tried
        else:
            self.tried.setdefault(tried.step.candidate.name, []).append(tried)

    def mean(self, candidate: Candidate, folds: int) -> float:
        """The mean over queries of so many whole folds of the first deal, or of the first look; else −inf."""
        found = self._find(candidate, folds)
        return float(average_values(found).max()) if found else -np.inf

    def lag(self, candidate: Candidate, leader: Candidate, folds: int) -> tuple[float, float]:
        """How far a candidate is behind another one in the mean over queries, and its standard error."""
        ours, theirs = self._find(candidate, folds), self._find(leader, folds)
        if not ours or not theirs:
            return np.inf, 0.0
        pairs = [
            np.concatenate([each.values[choose_setting(done)] for each in done]) for done in (ours, theirs)
        ]
        behind = pairs[1] - pairs[0]
        behind = behind[~np.isnan(behind)]
        if len(behind) < 2:
            return 0.0, np.inf
        return float(behind.mean()), float(behind.std(ddof=1) / np.sqrt(len(behind)))

    def length(self, candidate: Candidate) -> float:
        """How many rounds or steps its whole folds took in the mean, up to the best one; 0 without any."""
        found = [t.length for t in self.tried.get(candidate.name, []) if t.step.sample is None]
        return float(np.mean(found)) if found else 0.0

    def count_seconds(self, name: str) -> float:
        """What a candidate's steps took."""
        whole = [self.whole[name]] if name in self.whole else []
        return sum(each.seconds for each in [*self.tried.get(name, []), *whole])

    def _find(self, candidate: Candidate, folds: int) -> list[Tried]:
        """Its first look, or the first so many whole folds, or nothing if one is missing."""
        done = [] if candidate.name in self.failed else self.tried.get(candidate.name, [])
        if folds == LOOK:
            return done[:1]
        whole = {t.step.fold: t for t in done if t.step.deal == 0 and t.step.sample is None}
        return [whole[fold] for fold in range(folds)] if all(f in whole for f in range(folds)) else []


class AutoRanker(Ranker):
    """The ranker for whom the data and the time decide: tried out on inner folds, then blended.

    Linear models over transforms, LightGBM, CatBoost, XGBoost and a network are fitted on all but one of
    `folds` inner folds, whole users or sessions where the data know them, and judged by `metric` on the one
    left out: first all on one fold, then the better ones on more, then settings drawn by seed. Lists that
    stop a training early are never those that judge it. The best candidates are blended by weights that
    are chosen on held-out scores and drawn towards equal ones. A blended candidate is the mean of the models
    of its folds; the best tree and network of each kind, and every linear one, learn from everything too.

    `budget` ("10m", "1h30m", seconds; None for the whole schedule) only decides how far down the schedule
    `fit` gets: the next step is begun if it is expected to end in time. `steps_` says how many steps that
    were, and `steps=` repeats as many, whatever the clock says. Ctrl-C ends the search and takes the best so
    far. With `keep`, a folder, each step is kept there, and `fit` goes on where it was stopped; time that
    kept steps took counts. `kinds` names what to try ("linear", "lightgbm", "catboost", "xgboost", "neural");
    those whose library is not installed are left out. `valid` is more data to learn from: its queries join
    the folds. `metric` may be one of clicks over propensities, such as "dcg@10:ips".

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
        learns_valid=True,
        quick={"budget": None, "steps": 2, "kinds": ["linear"], "folds": 2},
    )

    models_: tuple[Ranker, ...]
    weights_: Floats  # [models], of their scores as they are
    owners_: tuple[str, ...]  # [models], the candidate of each
    shares_: dict[str, float]  # candidate → its share of the blend
    steps_: int
    interrupted_: bool  # whether Ctrl-C ended the search
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
        """Who was tried, on how many folds, how good it was, what it cost, its weight; why the winner won."""
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
        kinds, absent = find_kinds(self.kinds)
        data = train if valid is None else join_parts(train, valid)
        check_propensity([self.metric], data)
        began = time.perf_counter()
        search = CandidateSearch(data, self._make_plan(data, kinds), Ledger())
        stopped = self._walk(search, began)
        self.steps_, self.interrupted_ = search.steps, search.interrupted
        self._conclude(search, stopped, absent)
        self.seconds_ = time.perf_counter() - began

    def _check_settings(self) -> None:
        if self.budget is not None:
            parse_duration(self.budget)
        if self.steps is not None:
            check_count("steps", self.steps, least=1)
        check_count("folds", self.folds, least=2)
        as_metric(self.metric)
        find_kinds(self.kinds)

    def _make_plan(self, data: RankingData, kinds: Sequence[str]) -> Plan:
        limit = None if self.budget is None or self.steps is not None else parse_duration(self.budget)
        return Plan(
            kinds=tuple(kinds),
            folds=min(int(self.folds), data.n_queries // 5),
            seed=int(self.random_state or 0),
            metric=self.metric,
            limit=limit,
            most=self.steps,
            keep=None if self.keep is None else Path(self.keep),
        )

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
        told = {
            "models": facts, "shares": self.shares_, "steps": self.steps_, "seconds": self.seconds_,
            "interrupted": self.interrupted_,
        }  # fmt: skip
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
        self.interrupted_ = bool(told["interrupted"])
        self.told_ = parse_json(files[REPORT])

    # -- the search --------------------------------------------------------------------------------

    def _walk(self, search: CandidateSearch, began: float) -> str:
        """Take steps until the budget, the number of steps or the schedule ends; which of them it was."""
        data, plan = search.data, search.plan
        if data.n_queries < FEWEST or data.y.max(initial=0.0) == data.y.min(initial=0.0):
            return f"{data.n_queries} queries are too few, or too alike, to try anything out on"
        total = plan.limit if plan.limit is not None else plan.most
        unit = "s" if plan.limit is not None else "steps"
        with show_progress("trying", total, rate=unit, wanted=self.verbose) as bar, _quietly():
            try:
                for step in search.list_steps():
                    if plan.most is not None and search.steps >= plan.most:
                        return f"{search.steps} steps were asked for"
                    took = time.perf_counter() - began + search.kept_seconds
                    if not search.has_room(step, took):
                        break
                    bar.reach(search.steps if plan.limit is None else min(took, plan.limit))
                    bar.advance(0, title=f"{step.candidate.name}, fold {step.fold + 1}")
                    search.take(step, None if plan.limit is None else plan.limit - took)
                else:
                    return "the schedule was at its end"
            except OutOfTime:
                pass
            except KeyboardInterrupt:
                if not search.ledger.tried:
                    raise
                search.interrupted = True
                return "it was stopped by hand"
        return f"the budget of {say_seconds(plan.limit or 0.0)} had no room for step {search.steps + 1}"

    def _conclude(self, search: CandidateSearch, stopped: str, absent: Sequence[str]) -> None:
        """Choose who is blended and by how much, and make the models that will score."""
        data, ledger = search.data, search.ledger
        field_ = pick_field(ledger)
        if not field_:
            plain = make_plain(data)
            self.shares_ = {plain.name: 1.0}
            self._take_models([(plain.name, [make_linear(plain, 1.0).fit(data)], [1.0], 1.0)])
            self._tell(ledger, f"{stopped}; a ridge was fitted as it is", absent, {})
            return
        matrix, lists = gather_scores(field_, data, search.plan.seed)
        metric = as_metric(self.metric)

        def judge(scores: Floats) -> Floats:
            return metric(scores, lists.y, lists.offsets, propensity=lists.propensity)

        names = list(field_)
        weights = choose_weights(matrix, judge, seed=search.plan.seed)
        alone = {name: _mean(judge(row)) for name, row in zip(names, matrix, strict=True)}
        leader = max(alone, key=lambda name: alone[name])
        self.shares_ = {name: float(w) for name, w in zip(names, weights, strict=True) if w > 0.0}
        chosen = []
        for name, share in self.shares_.items():
            chosen.append((name, *finish(field_[name], ledger.whole.get(name), data), share))
        self._take_models(chosen)
        together = _mean(judge(weights @ matrix))
        facts = {"blend": together, "leader": alone[leader], "name": leader, "queries": lists.n_queries}
        self._tell(ledger, stopped, absent, facts)

    def _take_models(self, chosen: Sequence[tuple[str, Sequence[Ranker], Sequence[float], float]]) -> None:
        models, weights, owners = [], [], []
        for name, own, parts, share in chosen:
            models += list(own)
            weights += [share * part for part in parts]
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
            note = "and on everything" if name in ledger.whole else note
            if done[0].step.candidate.kind == "linear":
                note = f"C = {CS[choose_setting(whole or done)]:g}"
            tried.append(
                {
                    "name": name, "kind": done[0].step.candidate.kind, "folds": len(whole), "mean": mean,
                    "seconds": round(ledger.count_seconds(name), 3),
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
                    "seconds": round(ledger.count_seconds(name), 3), "note": f"failed: {why}",
                }
            )  # fmt: skip
        notes = [f"{self.steps_} steps: {stopped}."]
        if facts and len(self.shares_) > 1:
            notes.append(
                f"The blend of {len(self.shares_)} has {self.metric} {facts['blend']:.4f} on "
                f"{facts['queries']:,} held-out queries, the best alone ({facts['name']}) "
                f"{facts['leader']:.4f}. Weights and leader were chosen on these queries, so both figures "
                "are a little too good."
            )
        elif facts:
            notes.append(
                f"{facts['name']} alone: no other kind came near it on {facts['queries']:,} held-out queries."
            )
        samples = {each.step.sample for done in ledger.tried.values() for each in done}
        if samples and None not in samples:
            notes.append(
                f"No tree or network had time to learn from more than {max(filter(None, samples)):,} "
                "queries. Give a larger budget."
            )
        notes += [f"Left out, not installed: {', '.join(absent)}."] if absent else []
        notes.append(f"The mean of {self.metric} is over queries with something relevant.")
        self.told_ = {"metric": self.metric, "tried": tried, "notes": notes}


@dataclass(frozen=True)
class Plan:
    """What bounds a search: the kinds, the inner folds, and when it ends."""

    kinds: tuple[str, ...]
    folds: int
    seed: int
    metric: str
    limit: float | None  # seconds
    most: int | None  # steps
    keep: Path | None


@dataclass
class CandidateSearch:
    """A search under way: its data, what was tried, and the steps taken so far."""

    data: RankingData
    plan: Plan
    ledger: Ledger
    steps: int = 0
    kept_seconds: float = 0.0  # of steps that an earlier run took and kept
    interrupted: bool = False
    deals: dict[int, list[Ints]] = field(default_factory=dict)
    prints: str = ""

    def list_steps(self) -> Iterator[Step]:
        """The schedule, as the ledger has it when a step is asked for."""
        plan = self.plan
        return plan_steps(
            plan.kinds, self.ledger, queries=self.data.n_queries, folds=plan.folds, seed=plan.seed
        )

    def has_room(self, step: Step, took: float) -> bool:
        """Whether a step is expected to end in time; the first one always is."""
        limit = self.plan.limit
        if limit is None or not self.steps:
            return True
        return took + guess_seconds(step, self.ledger, self.data.n_queries) <= (1.0 - RESERVE) * limit

    def take(self, step: Step, left: float | None) -> None:
        """One step, or what was kept of it. One that fails takes its candidate out of the search."""
        plan, ledger = self.plan, self.ledger
        if step.candidate.name in ledger.failed:
            return
        if step.deal not in self.deals:
            self.deals[step.deal] = deal_folds(self.data, plan.folds, plan.seed + step.deal)
        parts = self.deals[step.deal]
        place = None
        if plan.keep is not None:
            self.prints = self.prints or fingerprint(self.data)
            place = plan.keep / name_step(step, self.prints, plan.seed, plan.metric, plan.folds)
        tried = read_step(place, step, self.data, parts, plan.metric)
        if tried is not None:
            self.kept_seconds += tried.seconds
        else:
            try:
                tried = take_step(step, self.data, parts, plan.seed, plan.metric, left)
            except (MissingExtra, OutOfTime):
                raise
            except Exception as error:  # one that cannot cope with the data must not end the search
                why = " ".join(f"{type(error).__name__}: {error}".split())
                name = step.candidate.name + (", on everything" if step.whole else "")
                ledger.failed[name] = why[:LONGEST_REASON]
                return
            if place is not None:
                keep_step(place, tried)
        ledger.add(tried)
        self.steps += 1


@dataclass(frozen=True)
class Blend:
    """Some models of an AutoRanker and their weights: one member of the blend, which scores rows too."""

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


def join_parts(train: RankingData, valid: RankingData) -> RankingData:
    """Both as one; queries of the two parts are other queries even if they are numbered alike."""
    if np.intersect1d(train.qids.astype(str), valid.qids.astype(str)).size:
        train = train.replace(qids=np.array([f"train {qid}" for qid in train.qids.tolist()], dtype=object))
        valid = valid.replace(qids=np.array([f"valid {qid}" for qid in valid.qids.tolist()], dtype=object))
    return concat([train, valid])


def make_plain(data: RankingData) -> Candidate:
    """What is fitted where nothing can be tried out."""
    if isinstance(data.X, np.ndarray):
        return Candidate("ridge over quantile_normal", "linear", "ridge", {"transform": "quantile_normal"})
    return Candidate("ridge", "linear", "ridge", {})


def guess_seconds(step: Step, ledger: Ledger, queries: int) -> float:
    """How long a step may take, by those of the same candidate, or else of the same kind.

    Where only a sample was looked at, a whole fold takes longer by as much as it has more queries, and a fit
    on everything by WHOLE_TAKES.
    """
    longer = 1.0
    if step.whole:
        longer = WHOLE_TAKES_NETWORK if step.candidate.kind == "neural" else WHOLE_TAKES

    def list_seconds(done: Iterable[Tried]) -> list[float]:
        more = 1.0 if step.sample is None else 0.0
        return [
            t.seconds * max(1.0, more * queries / t.step.sample) if t.step.sample else t.seconds for t in done
        ]

    own = ledger.tried.get(step.candidate.name, [])
    alike = [t for t in own if (t.step.sample is None) == (step.sample is None)]
    if own:
        return longer * max(list_seconds(alike or own))
    kin = [t for done in ledger.tried.values() for t in done if t.step.candidate.kind == step.candidate.kind]
    return float(np.mean(list_seconds(kin))) if kin else 0.0


# -- the end ---------------------------------------------------------------------------------------


def pick_field(ledger: Ledger) -> dict[str, list[Tried]]:
    """Who may enter the blend: the three best of each kind, at most one fold short of the farthest."""
    whole = {
        name: [t for t in done if t.step.sample is None]
        for name, done in ledger.tried.items()
        if name not in ledger.failed
    }
    count = {name: len({t.step.fold for t in done if t.step.deal == 0}) for name, done in whole.items()}
    depth = max(1, max(count.values(), default=0) - 1)  # folds are gone through one by one
    if not any(whole.values()):  # only looks at a sample: take them as they are
        whole = {name: list(done) for name, done in ledger.tried.items() if name not in ledger.failed}
        depth = LOOK
    ranked = sorted(
        (name for name in whole if count[name] >= depth),
        key=lambda name: -ledger.mean(whole[name][0].step.candidate, depth),
    )
    found: dict[str, list[Tried]] = {}
    for name in ranked:
        kind = whole[name][0].step.candidate.kind
        if sum(done[0].step.candidate.kind == kind for done in found.values()) < MOST_OF_KIND:
            found[name] = whole[name]
    return found


def gather_scores(
    field_: Mapping[str, Sequence[Tried]], data: RankingData, seed: int
) -> tuple[Floats, RankingData]:
    """Held-out scores `[members, rows]` of the folds that all have, and the lists that they are of.

    Where a candidate was fitted on several deals of the folds, its scores of a list are averaged. Of many
    lists a sample is taken.
    """
    shared = set.intersection(*({int(q) for t in done for q in t.held} for done in field_.values()))
    queries = np.array(sorted(shared), dtype=np.int64)
    if len(queries) > MOST_WEIGHING:
        queries = np.sort(np.random.default_rng([seed, 29]).choice(queries, MOST_WEIGHING, replace=False))
    mine = list_rows(data, queries)
    rows = []
    for done in field_.values():
        total, often = np.zeros(data.n_rows), np.zeros(data.n_rows)
        setting = choose_setting(done)
        for tried in done:
            places = list_rows(data, tried.held)
            total[places] += scale_scores(tried, setting, data)[0]
            often[places] += 1.0
        rows.append(total[mine] / np.maximum(often[mine], 1.0))
    return np.stack(rows), data[queries]


def list_rows(data: RankingData, queries: Ints) -> Ints:
    """The rows of these queries, in their order."""
    found = [np.arange(data.offsets[q], data.offsets[q + 1]) for q in queries.tolist()]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def finish(done: Sequence[Tried], whole: Tried | None, data: RankingData) -> tuple[list[Ranker], list[float]]:
    """The models that stand for a candidate, and what each one's score is multiplied by.

    The models of folds have the same say, and together half of it where one was fitted on everything. What
    that one scores is not held out, so its scale is that of the folds.
    """
    candidate = done[0].step.candidate
    if candidate.kind == "linear":
        model = make_linear(candidate, CS[choose_setting(done)]).fit(data)
        return [model], [1.0 / (measure_spread(model.predict(data), data.offsets) or 1.0)]
    models = [each.model for each in done if each.model]
    scales = [scale_scores(each, 0, data)[1] for each in done]
    if whole is None or whole.model is None:
        return models, [1.0 / (len(models) * scale) for scale in scales]
    parts = [0.5 / (len(models) * scale) for scale in scales]
    return [*models, whole.model], [*parts, 0.5 / float(np.mean(scales))]


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
