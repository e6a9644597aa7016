"""A joined log cut for the places study: training, validation and test by session, and features of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Ints, keep_old_names, need_library
from placings.data import RankingData
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
from placings.studies.places_settings import StudySettings

if TYPE_CHECKING:
    import pandas as pd

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


__getattr__ = keep_old_names(__name__, {"Pantry": "FeatureData"})
