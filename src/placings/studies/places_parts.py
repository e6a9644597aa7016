"""A joined log cut for the places study: training, validation and test by session, and features of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Ints
from placings.data import RankingData, need_library
from placings.logs import PAST, add_past_clicks, count_clicks, look_up_clicks
from placings.studies.places_settings import Settings

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("search_id", "item_id", "position", "label")
RELATIONS, THESIS, TREES, COUNTED = "relations", "n-grams", "n-grams for trees", "counted n-grams"
TRIMMED = (THESIS, TREES, COUNTED)  # families that train on short lists

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


def cut_parts(rows: pd.DataFrame, settings: Settings) -> Parts:
    """Sort the rows, deal out sessions, leave out one-item lists.

    Sessions are dealt by their first search, the last ones for the test, or with `split="session"` at random.
    A log without `session_id` is dealt by search, and `counts` says so. Each row is told how often its item
    had been clicked, `past_clicks`: in training and validation, as of its search in training sessions. In
    the test, as it stood when training ended, or with `split="session"`, where training sessions come later
    too, as of its search.
    """
    frame = order_rows(rows)
    if not len(frame):
        raise BadInput("the study needs rows of searches. Got a table without any.")
    unit = frame["session_id"] if "session_id" in frame else frame["search_id"]
    part = unit.map(_deal_sessions(unit, settings)).to_numpy()
    train_log, valid_log = frame[part == 0], frame[part == 1]
    inside = (frame["position"] <= settings.pool).to_numpy()
    size = frame[inside].groupby("search_id", sort=False)["item_id"].transform("size")
    counts = {
        "rows": len(frame),
        "searches": int(frame["search_id"].nunique()),
        "one_item_searches": int(frame[inside].loc[size < 2, "search_id"].nunique()),
        "sessions": int(unit.nunique()),
    }
    pool, part = frame[inside][size >= 2], part[inside][(size >= 2).to_numpy()]
    clicked = (pool.groupby("search_id", sort=False)["label"].transform("max") > 0).to_numpy()
    train, valid = pool[(part == 0) & clicked], pool[(part == 1) & clicked]
    test, unclicked = pool[part == 2], pool[(part == 0) & ~clicked]
    deep = frame[frame["search_id"].isin(set(test["search_id"]))]
    for name, found in (("train", train), ("valid", valid), ("test", test), ("unclicked", unclicked)):
        counts[name] = int(found["search_id"].nunique())
    counts["test_clicked"] = int(test.loc[test["label"] > 0, "search_id"].nunique())
    if min(counts["train"], counts["valid"], counts["test_clicked"]) < 5:
        raise BadInput(
            "each part needs five searches with a click and two items or more. Got "
            f"{counts['train']} to train, {counts['valid']} to validate, {counts['test_clicked']} to test."
        )
    train, valid, test, unclicked, deep, train_log, valid_log = (
        each.reset_index(drop=True) for each in (train, valid, test, unclicked, deep, train_log, valid_log)
    )
    if "time" in frame:
        train, valid, unclicked = (add_past_clicks(each, train_log) for each in (train, valid, unclicked))
        test, deep = (_add_known_clicks(each, train_log, valid_log, settings) for each in (test, deep))
    return Parts(train, valid, test, unclicked, deep, train_log, valid_log, hash_rows(frame), counts)


def _add_known_clicks(
    rows: pd.DataFrame, train_log: pd.DataFrame, valid_log: pd.DataFrame, settings: Settings
) -> pd.DataFrame:
    """Test rows with the clicks of training and validation sessions: as of each search, or as they ended."""
    pandas = need_library("pandas", "the places study")
    learned = pandas.concat([train_log, valid_log])
    if settings.split == "session":
        return add_past_clicks(rows, learned)
    known = count_clicks(learned)
    return rows.assign(**{PAST: look_up_clicks(rows["item_id"].astype(str).tolist(), known)})


def order_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by time, search and position, checked; nothing of the given table changes."""
    missing = [name for name in NEEDED if name not in rows]
    if missing:
        raise BadInput(
            f"the rows table lacks {', '.join(missing)}. placings log join makes one that has them."
        )
    keys = [name for name in ("time", "search_id", "position") if name in rows]
    return rows.sort_values(keys, kind="stable").reset_index(drop=True)


def hash_rows(frame: pd.DataFrame) -> str:
    """32 hexadecimal digits that differ when the rows do."""
    pandas = need_library("pandas", "the places study")
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(frame.columns):
        digest.update(str(name).encode())
        digest.update(pandas.util.hash_pandas_object(frame[name], index=False).to_numpy().tobytes())
    return digest.hexdigest()


def find_offsets(frame: pd.DataFrame) -> Ints:
    """Where each search begins, and the end; the rows of a search stand together."""
    ids = frame["search_id"].to_numpy()
    if not len(ids):
        return np.zeros(1, dtype=np.int64)
    starts = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    return np.concatenate([[0], starts, [len(ids)]]).astype(np.int64)


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


def carry_clicks(clicked: pd.DataFrame, unclicked: pd.DataFrame) -> pd.DataFrame:
    """Unclicked searches labelled with what their session clicked later, where their list held it.

    `clicked` are rows of the same sessions; those with a label above 0 count, from lists of any length.
    People type on until they see what they mean: a list that held it, unnoticed or too far down, says as much
    as the one that was clicked, and with both together the engine's first ranks are favoured less.
    """
    if not len(unclicked) or "session_id" not in unclicked or "time" not in unclicked:
        return unclicked.iloc[:0]
    wins = clicked.loc[clicked["label"] > 0, ["session_id", "item_id", "time"]]
    last = wins.groupby(["session_id", "item_id"], sort=False)["time"].max()
    keys = list(zip(unclicked["session_id"].tolist(), unclicked["item_id"].tolist(), strict=True))
    known = last.to_dict()
    later = np.array(
        [key in known and when < known[key] for key, when in zip(keys, unclicked["time"], strict=True)]
    )
    rows = unclicked.assign(label=later.astype(np.float64))
    kept = rows.groupby("search_id", sort=False)["label"].transform("max") > 0
    return rows[kept].reset_index(drop=True)


def hide_location(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows with no user's position."""
    gone = {name: np.nan for name in ("focus_lat", "focus_lon") if name in frame}
    return frame.assign(**gone)


@dataclass
class Pantry:
    """Feature sets fitted on the training rows once, and the data they make, kept until forgotten."""

    parts: Parts
    settings: Settings
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


def list_families(settings: Settings) -> dict[str, Callable[[], Any]]:
    """The feature sets of the study: relations, and the thesis' columns in three sizes."""
    from placings.places import place_features, thesis_features

    return {
        RELATIONS: place_features,
        THESIS: lambda: thesis_features(hashed=settings.hashed, how="hash"),
        TREES: lambda: thesis_features(hashed=settings.tree_hashed, how="hash"),
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


def _deal_sessions(unit: pd.Series[Any], settings: Settings) -> dict[Any, int]:
    """Session → 0 (train), 1 (valid) or 2 (test); `unit` is in order of time."""
    sessions = unit.drop_duplicates().to_numpy()
    if settings.split == "session":
        names = np.sort(sessions.astype(str))  # so that the deal hangs on the names and the seed alone
        by_text = {str(session): session for session in sessions}
        order = np.random.default_rng(settings.seed).permutation(len(names))
        sessions = np.array([by_text[name] for name in names[order]], dtype=object)
    borders = np.rint(np.cumsum(settings.shares) * len(sessions)).astype(int)
    return {
        session: int(np.searchsorted(borders, place, side="right")) for place, session in enumerate(sessions)
    }
