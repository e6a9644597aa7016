"""What the places study trains: its settings, the parts of the log, and models kept as cells."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    Floats,
    Ints,
    UnknownName,
    choose_voice,
    keep_cell,
    keep_old_names,
    need_library,
    plain_value,
)
from placings.data import RankingData
from placings.evaluation import list_versions, weigh_positives
from placings.logs import (
    ITEM_ID,
    LABEL,
    PAST,
    POSITION,
    SEARCH_ID,
    SESSION_ID,
    ClickLog,
    add_past_clicks,
    count_clicks,
    find_offsets,
    look_up_clicks,
)
from placings.metrics import mrr
from placings.rankers import Ranker
from placings.studies.places_measures import find_ranks

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("time", "session")
THESIS_STEPS = 15_000  # of the presets of Table 6.3
LIBRARIES = ("XGBoost", "LightGBM", "CatBoost")

# The thesis' parameters (section 4.6.1), tried one after the other from the best so far: objective, number of
# rounds, minimum child weight, maximum depth, and the weight of positive rows where the library has weights
# for rows (XGBoost and CatBoost weigh whole lists).
GRIDS: dict[str, tuple[dict[str, Any], ...]] = {
    "XGBoost": (
        {"objective": "rank:map"}, {"objective": "rank:pairwise"}, {"max_depth": 4}, {"max_depth": 9},
        {"min_child_weight": 0.1}, {"rounds": 2.0},
    ),
    "LightGBM": (
        {"objective": "rank_xendcg"}, {"leaves": 31, "params": {"max_depth": 6}}, {"leaves": 63},
        {"params": {"min_sum_hessian_in_leaf": 0.1}}, {"positive_weight": 5.0}, {"rounds": 2.0},
    ),
    "CatBoost": (
        {"loss": "QuerySoftMax"}, {"depth": 4}, {"depth": 8}, {"params": {"min_data_in_leaf": 10}},
        {"rounds": 2.0},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class StudySettings:
    """What a run was asked for; the run's folder keeps it, and every cell's name depends on it.

    `shares` are those of training, validation and test. `split="time"` holds out the last sessions,
    `"session"` sessions drawn at random.
    `pool` is how many of the engine's results are re-ranked. `hashed` and `tree_hashed` are columns for each
    text field. `list_size` is how many rows of a list the n-gram models train on: the clicked ones and others
    drawn at random (the thesis' lists have 15). `trials` bounds the tuning of each library.
    """

    shares: tuple[float, float, float] = (0.64, 0.16, 0.20)
    split: str = "time"
    seed: int = 0
    pool: int = 40
    depths: tuple[int, ...] = (10, 20, 40, 100)
    hashed: int = 2**20
    tree_hashed: int = 2**10
    list_size: int = 15
    rounds: int = 150
    tree_rate: float = 0.1
    slow_rounds: int = 100  # of XGBoost and CatBoost on n-grams
    trials: int = 6
    steps: int = 1000
    group_steps: int = 300
    neural_steps: int = 2000
    variants: tuple[str, ...] = ("64", "32", "512", "tanh", "mrr", "relu", "groupwise")
    counted_rounds: int = 80
    counted: int = 20_000  # n-grams of each text field, the most frequent ones
    bootstrap: int = 2000
    least: int = 200

    def __post_init__(self) -> None:
        if len(self.shares) != 3 or min(self.shares) <= 0.0 or abs(sum(self.shares) - 1.0) > 1e-9:
            raise BadInput(f"shares must be three numbers above 0 that add up to 1. Got {self.shares}.")
        if self.split not in SPLITS:
            raise UnknownName("split", str(self.split), SPLITS)


def choose_settings(searches: int, *, quick: bool = False, full: bool = False, **given: Any) -> StudySettings:
    """Settings whose run takes about 15 minutes for 5,000 searches on two cores, 2 with `quick`.

    From 10,000 searches on, training is longer; 20,000 stay below two hours. `full` trains the thesis'
    networks for as many steps as their presets have, 15,000, which takes hours.
    """
    if quick and full:
        raise BadInput("quick and full are opposites. Choose one of them.")
    chosen = StudySettings()
    if quick:
        chosen = replace(
            chosen, tree_hashed=2**7, rounds=60, slow_rounds=20, trials=1, steps=80, group_steps=25,
            neural_steps=400, variants=("64", "relu", "groupwise"), counted_rounds=20, bootstrap=1000,
            hashed=2**16, least=50,
        )  # fmt: skip
    elif searches >= 10_000:
        chosen = replace(chosen, rounds=300, steps=2000, neural_steps=3000)
    if full:
        chosen = replace(chosen, steps=THESIS_STEPS, group_steps=THESIS_STEPS)
    return replace(chosen, **given)


RELATIONS, THESIS, TREE_NGRAMS, COUNTED = "relations", "n-grams", "n-grams for trees", "counted n-grams"
TRIMMED = (THESIS, TREE_NGRAMS, COUNTED)  # families that train on short lists

Families: TypeAlias = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of each part, lists of one item left out.

    `train` and `valid` hold searches with a click, `unclicked` the other searches of the training sessions.
    `test` holds both: clicks are judged on those that have one, the true target (where the log is simulated)
    on all. `deep` are the test's searches with every row that was logged. `train_log` and `valid_log` are
    every row of the training and validation sessions, lists of one item too: what a re-ranker is trained on.
    """

    train: pd.DataFrame
    valid: pd.DataFrame
    test: pd.DataFrame
    unclicked: pd.DataFrame
    deep: pd.DataFrame
    train_log: pd.DataFrame
    valid_log: pd.DataFrame
    digest: str
    counts: dict[str, int]

    @property
    def has_truth(self) -> bool:
        """Whether the log says which item was really meant."""
        return "is_target" in self.test


def cut_parts(rows: pd.DataFrame | ClickLog, settings: StudySettings) -> Parts:
    """Deal out sessions, and leave out lists of one item.

    Sessions are dealt by their first search, the last ones for the test, or with `split="session"` at random.
    A log without `session_id` is dealt by search, and `counts` says so. Each row is told how often its item
    had been clicked, `past_clicks`: in training and validation, as of its search in training sessions. In
    the test, as it stood when training ended, or with `split="session"`, where training sessions come later
    too, as of its search.
    """
    log = rows if isinstance(rows, ClickLog) else ClickLog(rows)
    if not len(log):
        raise BadInput("the study needs rows of searches. Got a table without any.")
    dealt = log.split(*settings.shares, by=settings.split, random_state=settings.seed)
    train_log, valid_log, test_log = (part.rows for part in dealt)
    learned, checked, tested = (_take_pool(part, settings.pool) for part in (train_log, valid_log, test_log))
    unit = SESSION_ID if SESSION_ID in log.columns else SEARCH_ID
    counts = {
        "rows": len(log),
        "searches": log.n_searches,
        "one_item_searches": learned.alone + checked.alone + tested.alone,
        "sessions": int(log.rows[unit].nunique()),
    }
    train, unclicked, valid, test = learned.clicked, learned.unclicked, checked.clicked, tested.rows
    deep = test_log[test_log[SEARCH_ID].isin(set(test[SEARCH_ID]))].reset_index(drop=True)
    for name, found in (("train", train), ("valid", valid), ("test", test), ("unclicked", unclicked)):
        counts[name] = int(found[SEARCH_ID].nunique())
    counts["test_clicked"] = int(tested.clicked[SEARCH_ID].nunique())
    if SESSION_ID in test:
        counts["test_sessions"] = int(test[SESSION_ID].nunique())
    if min(counts["train"], counts["valid"], counts["test_clicked"]) < 5:
        raise BadInput(
            "each part needs five searches with a click and two items or more. Got "
            f"{counts['train']} to train, {counts['valid']} to validate, {counts['test_clicked']} to test."
        )
    if "time" in log.columns:
        train, valid, unclicked = (add_past_clicks(each, train_log) for each in (train, valid, unclicked))
        test, deep = (_add_known_clicks(each, train_log, valid_log, settings) for each in (test, deep))
    return Parts(train, valid, test, unclicked, deep, train_log, valid_log, hash_rows(log.rows), counts)


@dataclass(frozen=True, eq=False)
class _Pool:
    """The rows that are re-ranked, those of searches with a click and of others, and lists of one item."""

    rows: pd.DataFrame
    clicked: pd.DataFrame
    unclicked: pd.DataFrame
    alone: int


def _take_pool(part: pd.DataFrame, pool: int) -> _Pool:
    inside = part[part[POSITION] <= pool]
    size = inside.groupby(SEARCH_ID, sort=False)[ITEM_ID].transform("size")
    rows = inside[size >= 2].reset_index(drop=True)
    clicked = rows.groupby(SEARCH_ID, sort=False)[LABEL].transform("max") > 0
    won, lost = (rows[each].reset_index(drop=True) for each in (clicked, ~clicked))
    return _Pool(rows, won, lost, int(inside.loc[size < 2, SEARCH_ID].nunique()))


def _add_known_clicks(
    rows: pd.DataFrame, train_log: pd.DataFrame, valid_log: pd.DataFrame, settings: StudySettings
) -> pd.DataFrame:
    """Test rows with the clicks of training and validation sessions: as of each search, or as they ended."""
    pandas = need_library("pandas", "the places study")
    learned = pandas.concat([train_log, valid_log])
    if settings.split == "session":
        return add_past_clicks(rows, learned)
    known = count_clicks(learned)
    return rows.assign(**{PAST: look_up_clicks(rows["item_id"].astype(str).tolist(), known)})


def hash_rows(frame: pd.DataFrame) -> str:
    """32 hexadecimal digits that differ when the rows do."""
    pandas = need_library("pandas", "the places study")
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(frame.columns):
        digest.update(str(name).encode())
        digest.update(pandas.util.hash_pandas_object(frame[name], index=False).to_numpy().tobytes())
    return digest.hexdigest()


def trim_lists(frame: pd.DataFrame, size: int, seed: int) -> pd.DataFrame:
    """At most `size` rows of each search: the clicked ones and others drawn at random, in their order."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(find_offsets(frame)) - 1), np.diff(find_offsets(frame)))
    luck = rng.random(len(frame)) - (frame["label"].to_numpy() > 0)  # clicked ones come first
    order = np.lexsort((luck, owner))
    place = np.arange(len(frame)) - find_offsets(frame)[:-1][owner]
    kept = np.zeros(len(frame), dtype=np.bool_)
    kept[order[place < size]] = True
    return frame[kept].reset_index(drop=True)


def hide_location(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows with no user's position."""
    gone = {name: np.nan for name in ("focus_lat", "focus_lon") if name in frame}
    return frame.assign(**gone)


@dataclass
class FeatureData:
    """Feature sets fitted on the training rows once, and the data they make, kept until forgotten."""

    parts: Parts
    settings: StudySettings
    families: Families
    fitted: dict[str, Any] = field(default_factory=dict)
    made: dict[tuple[str, str], RankingData] = field(default_factory=dict)

    def features(self, family: str) -> Any:
        """The fitted feature set of a family."""
        if family not in self.fitted:
            self.fitted[family] = self.families[family]().fit(self.rows(family, "train"))
        return self.fitted[family]

    def describe(self, family: str) -> Any:
        """What a family's features are declared as; a cell's key holds it."""
        return self.families[family]().to_state()

    def data(self, family: str, part: str) -> RankingData:
        """The data of a part: train, valid, test, unclicked, or test without location ("hidden")."""
        if (family, part) not in self.made:
            self.made[family, part] = self.make(family, self.rows(family, part))
        return self.made[family, part]

    def make(self, family: str, rows: pd.DataFrame) -> RankingData:
        """The data of any rows."""
        data: RankingData = self.features(family).to_ranking(rows)
        if not np.array_equal(data.offsets, find_offsets(rows)):
            raise BadInput("the rows of a search must stand together.")
        return data

    def forget(self, *families: str) -> None:
        """Free the memory of these families."""
        for family in families:
            self.fitted.pop(family, None)
            for key in [key for key in self.made if key[0] == family]:
                del self.made[key]

    def rows(self, family: str, part: str) -> pd.DataFrame:
        """The rows that a part's data are made of; n-grams train on short lists."""
        parts = self.parts
        if part == "hidden":
            return hide_location(parts.test)
        rows: pd.DataFrame = getattr(parts, part)
        if part == "train" and family in TRIMMED:
            rows = trim_lists(rows, self.settings.list_size, self.settings.seed)
        return rows


def list_families(settings: StudySettings) -> dict[str, Callable[[], Any]]:
    """The feature sets of the study: relations, and the thesis' columns in three sizes."""
    from placings.places import place_features, thesis_features

    return {
        RELATIONS: place_features,
        THESIS: lambda: thesis_features(hashed=settings.hashed, how="hash"),
        TREE_NGRAMS: lambda: thesis_features(hashed=settings.tree_hashed, how="hash"),
        COUNTED: lambda: thesis_features(hashed=settings.counted, how="count"),
    }


def join_columns(first: RankingData, second: RankingData) -> RankingData:
    """The same searches with the columns of both; sparse if one of them is. Equal names keep the first."""
    from scipy.sparse import csr_array, hstack

    taken = set(first.feature_names)
    fresh = [place for place, name in enumerate(second.feature_names) if name not in taken]
    extra = second.select(fresh)
    if isinstance(first.X, np.ndarray) and isinstance(extra.X, np.ndarray):
        X: Any = np.hstack([first.X, extra.X])
    else:
        X = csr_array(hstack([csr_array(first.X), csr_array(extra.X)], format="csr"))
    return first.replace(X=X, feature_names=(*first.feature_names, *extra.feature_names))


def weigh_bands(lengths: Ints | AnyArray, bands: AnyArray, *, most: float = 4.0) -> Floats:
    """A weight for each row so that rare bands of query length count more, the mean weight 1.

    A search of a band with share p of the searches weighs `p^−½`, at most `most` times the least; `lengths`
    are the rows of each search.
    """
    names, codes = np.unique(bands.astype(str), return_inverse=True)
    share = np.bincount(codes, minlength=len(names)) / len(codes)
    weight = 1.0 / np.sqrt(share)
    weight = np.minimum(weight / weight.min(), most)[codes]
    return np.repeat(weight / weight.mean(), lengths)


FORMAT = 3  # the members of the default re-ranker are judged alone, too
ENGINE, RANKSVM, LINEAR, DEEP, GROUPWISE = "engine", "RankSVM", "neural linear", "neural deep", "groupwise"
BINARY = ("rank:map",)  # objectives that take labels 0 and 1 only
CURVE = 200  # points of a training curve
VARIANTS = {  # Table 6.3: short name → preset, and how the table calls it
    "linear": ("thesis-linear-sigmoid", "Linear (sigmoid)"),
    "deep": ("thesis-fc-64-32-16-dropout-80", "FC-64-32-16, 80 % dropout"),
    "32": ("thesis-fc-32", "FC-32, 80 % dropout"),
    "groupwise": ("thesis-fc-512-256-32-groupwise", "FC-512-256-32, groupwise of 5"),
    "512": ("thesis-fc-512-256-32", "FC-512-256-32"),
    "tanh": ("thesis-fc-512-256-32-tanh", "FC-512-256-32, tanh"),
    "64": ("thesis-fc-64-32-16", "FC-64-32-16"),
    "mrr": ("thesis-fc-512-256-32-approx-mrr", "FC-512-256-32, approximate MRR loss"),
    "relu": ("thesis-linear-relu", "Non-linear (ReLU), no hidden layer"),
}


@dataclass
class StudyCells:
    """Where cells are made and kept; `say` tells how far the run is."""

    parts: Parts
    settings: StudySettings
    feature_data: FeatureData
    folder: Path | None
    progress: bool | Callable[[str], object] = False
    versions: Mapping[str, str] = field(default_factory=list_versions)
    begun: float = field(default_factory=time.perf_counter)

    def keep(
        self,
        name: str,
        about: Mapping[str, Any],
        make: Callable[[], dict[str, Any]],
        stands: Callable[[Mapping[str, Any]], bool] = lambda cell: True,
    ) -> dict[str, Any]:
        """A cell, keyed by the rows, how they are cut, what it is about, and the libraries' versions.

        One that was kept is made anew if it no longer `stands`.
        """
        asked = {key: getattr(self.settings, key) for key in ("shares", "split", "seed", "pool", "list_size")}
        key = {
            "format": FORMAT, "rows": self.parts.digest, "cut": asked, "name": name,
            "about": plain_value(about), "versions": dict(self.versions),
        }  # fmt: skip
        fresh: list[float] = []

        def work() -> dict[str, Any]:
            began = time.perf_counter()
            found = make()
            fresh.append(time.perf_counter() - began)
            return found

        found = keep_cell(self.folder, name, key, work, stands)
        self.say(f"{name}: {f'{fresh[0]:.1f} s' if fresh else 'kept from before'}")
        return found

    def say(self, text: str) -> None:
        """One line on stderr, if wanted."""
        choose_voice(self.progress)(f"[{time.perf_counter() - self.begun:7.1f} s] {text}")

    def judge(
        self,
        name: str,
        family: str,
        ranker: Ranker,
        *,
        watch: bool = True,
        positive_weight: float | None = None,
        hidden: bool = False,
        binary: bool = False,
    ) -> dict[str, Any]:
        """The cell of a model: its ranks on the test, with `hidden` also where no user shares a position.

        `watch` gives the validation part to `fit`; it is scored in either case. `binary` trains on whether
        there was a click at all, for objectives that know no grades.
        """
        about = {
            "features": self.feature_data.describe(family), "ranker": type(ranker).__name__,
            "settings": ranker.get_params(deep=False), "hidden": hidden, "watch": watch,
            "positive_weight": positive_weight, "binary": binary,
        }  # fmt: skip

        def make() -> dict[str, Any]:
            train, valid = self.feature_data.data(family, "train"), self.feature_data.data(family, "valid")
            if positive_weight is not None:
                train = weigh_positives(train, positive_weight)
            if binary:
                train, valid = forget_grades(train), forget_grades(valid)
            began = time.perf_counter()
            ranker.fit(train, valid=valid) if watch else ranker.fit(train)
            took = time.perf_counter() - began
            test = self.feature_data.data(family, "test")
            found = self.rank(np.asarray(ranker.predict(test), dtype=np.float64))
            found |= {"valid": measure_mrr(ranker, valid), "seconds": round(took, 2), **describe_fit(ranker)}
            if hidden:
                blind = self.feature_data.make(family, self.feature_data.rows(family, "hidden"))
                found["hidden"] = self.rank(np.asarray(ranker.predict(blind), dtype=np.float64))
            return found

        return self.keep(name, about, make)

    def rank(self, scores: Floats) -> dict[str, Any]:
        """Ranks of the clicked and of the true item of each test search; 0 where there is none."""
        rows, offsets = self.parts.test, find_offsets(self.parts.test)
        found: dict[str, Any] = {"true": None}
        for name, column in (("clicks", "label"), ("true", "is_target")):
            if column in rows:
                found[name] = find_ranks(scores, rows[column].to_numpy(dtype=np.float64), offsets)
        return found


def judge_engine(store: StudyCells) -> dict[str, Any]:
    """The engine's own order."""
    return {**store.rank(-store.parts.test["position"].to_numpy(dtype=np.float64)), "seconds": 0.0}


def forget_grades(data: RankingData) -> RankingData:
    """The same data with label 1 for every grade above 0."""
    return data.replace(y=(data.y > 0).astype(data.y.dtype))


def make_tree(name: str, settings: StudySettings, given: Mapping[str, Any]) -> Ranker:
    """An unfitted ranker of one of the three libraries as the thesis uses them: without the engine's bias.

    `rounds` in `given` multiplies the settings' number.
    """
    from placings.rankers import CatBoostRanker, LightGBMRanker, XGBoostRanker

    kinds: dict[str, Any] = {
        "XGBoost": XGBoostRanker, "LightGBM": LightGBMRanker, "CatBoost": CatBoostRanker,
    }  # fmt: skip
    params = {key: value for key, value in given.items() if key != "positive_weight"}
    rounds = settings.rounds if name == "LightGBM" else settings.slow_rounds
    params["rounds"] = round(rounds * float(given.get("rounds", 1.0)))
    if name == "LightGBM":
        params["debias"] = False
    early = max(10, rounds // 4)
    made: Ranker = kinds[name](
        metric="mrr",
        early_stopping=early,
        learning_rate=settings.tree_rate,
        random_state=settings.seed,
        **params,
    )
    return made


def judge_tree(store: StudyCells, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A library with its defaults, and with the best values of its grid on the validation part.

    Values are tried one after the other, each on top of the best so far: `trials` of them at most.
    """
    base = store.judge(f"{name} default", TREE_NGRAMS, make_tree(name, store.settings, {}), hidden=True)
    best = base
    chosen: dict[str, Any] = {}
    for trial in GRIDS[name][: store.settings.trials]:
        values = _merge(chosen, trial)
        cell = store.judge(
            f"{name} {_name_values(values)}", TREE_NGRAMS, make_tree(name, store.settings, values),
            positive_weight=values.get("positive_weight"), hidden=name == "LightGBM",
            binary=values.get("objective") in BINARY,
        )  # fmt: skip
        if cell["valid"] > best["valid"]:
            best, chosen = cell, values
    return base, {**best, "parameters": chosen}


def judge_ranksvm(store: StudyCells) -> dict[str, Any]:
    """RankSVM on all hashed columns."""
    from placings.rankers import LinearRanker

    return store.judge(RANKSVM, THESIS, LinearRanker("hinge", C=1.0, tol=1e-2), watch=False)


def judge_network(store: StudyCells, short: str) -> dict[str, Any]:
    """A network of Table 6.3 on all hashed columns: it sees no validation part and ends by steps alone."""
    from placings.rankers import NeuralRanker

    preset, title = VARIANTS[short]
    steps = store.settings.group_steps if short == "groupwise" else store.settings.steps
    ranker = NeuralRanker(
        preset=preset, transform="log1p", steps=steps, random_state=store.settings.seed, device="cpu",
        metric="mrr",
    )  # fmt: skip
    return {**store.judge(title, THESIS, ranker, watch=False), "title": title}


def measure_mrr(ranker: Ranker, data: RankingData) -> float:
    """The mean reciprocal rank of the first click."""
    return mean_mrr(np.asarray(ranker.predict(data), dtype=np.float64), data)


def mean_mrr(scores: Floats, data: RankingData) -> float:
    """The same for scores; 0 where nothing is judged."""
    values = mrr(scores, data.y, data.offsets, min_items=2)
    return float(np.nanmean(values)) if not np.isnan(values).all() else 0.0


def describe_fit(ranker: Any) -> dict[str, Any]:
    """How the training went: a curve of a network, rounds of trees."""
    history: Any = getattr(ranker, "history_", None)
    if hasattr(history, "gradient"):
        return {"curve": thin_curve(history.loss, history.gradient)}
    return {"rounds": int(ranker.rounds_)} if hasattr(ranker, "rounds_") else {}


def thin_curve(loss: list[float], gradient: list[float]) -> dict[str, list[float]]:
    """Step, loss and gradient norm as means of at most 200 stretches; step is a stretch's last.

    >>> thin_curve([4.0, 2.0], [1.0, 3.0])
    {'step': [1, 2], 'loss': [4.0, 2.0], 'gradient': [1.0, 3.0]}
    """
    if not loss:
        return {"step": [], "loss": [], "gradient": []}
    pieces = np.array_split(np.arange(len(loss)), min(CURVE, len(loss)))
    values, slopes = np.asarray(loss), np.asarray(gradient)
    return {
        "step": [int(piece[-1]) + 1 for piece in pieces],
        "loss": [float(values[piece].mean()) for piece in pieces],
        "gradient": [float(slopes[piece].mean()) for piece in pieces],
    }


def _merge(chosen: Mapping[str, Any], trial: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**chosen, **trial}
    if "params" in chosen and "params" in trial:
        merged["params"] = {**chosen["params"], **trial["params"]}
    return merged


def _name_values(values: Mapping[str, Any]) -> str:
    flat = {**{key: value for key, value in values.items() if key != "params"}, **values.get("params", {})}
    return " ".join(f"{key}={value}" for key, value in flat.items())


def describe_settings(settings: StudySettings) -> dict[str, Any]:
    """The settings as plain values."""
    return dict(plain_value(asdict(settings)))


__getattr__ = keep_old_names(
    __name__, {"Desk": "StudyCells", "Pantry": "FeatureData", "Settings": "StudySettings"}
)
