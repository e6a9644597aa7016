"""Known collections, as small files in each published layout."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from placings.core.errors import BadFile, BadInput, Guess, Mismatch, UnknownName
from placings.data.collections import (
    COLLECTIONS,
    find_collection,
    name_letor4_features,
    name_mslr_features,
    name_ohsumed_features,
    read_collection,
    rotate_parts,
)

WIDTH = {name: collection.n_features for name, collection in COLLECTIONS.items()}


def write_rows(path: Path, qid: int, features: int, values: dict[int, str] | None = None) -> None:
    """Two rows of one query whose feature 1 is the qid, packed as the suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = ""
    for label in (1, 0):
        row = {1: str(qid), features: "0.5"} | (values or {})
        pairs = " ".join(f"{number}:{value}" for number, value in sorted(row.items()))
        text += f"{label} qid:{qid} {pairs} #docid = D{qid}-{label}\n"
    packed = {".gz": gzip.compress, ".zst": lambda b: pa.compress(b, codec="zstd", asbytes=True)}
    path.write_bytes(packed.get(path.suffix, bytes)(text.encode()))


def write_folds(folder: Path, features: int, names: tuple[str, str, str], suffix: str = "") -> None:
    for fold in range(1, 6):
        for place, name in enumerate(names):
            write_rows(folder / f"Fold{fold}" / f"{name}{suffix}", 10 * fold + place, features)


def write_pieces(
    folder: Path, features: int, suffix: str = ".gz", values: dict[int, str] | None = None
) -> None:
    for number in range(1, 6):
        write_rows(folder / f"S{number}.txt{suffix}", number, features, values)


def read_quietly(folder: Path, **options: object) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Mismatch)
        return [int(qid) for qid in read_collection(folder, **options).qids]  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("name", ["MSLR-WEB10K", "mslr_web30k", "MQ2007", "OHSUMED"])
def test_folds_hold_train_vali_and_test(tmp_path: Path, name: str, suffix: str) -> None:
    folder = tmp_path / name
    collection = {"mslr_web30k": "MSLR-WEB30K"}.get(name, name)
    files = ("train.txt", "vali.txt", "test.txt")
    if name == "OHSUMED":
        files = ("trainingset.txt", "validationset.txt", "testset.txt")
    inside = folder / "Feature-min" if name == "OHSUMED" else folder
    write_folds(inside, WIDTH[collection], files, suffix)
    assert find_collection(folder) is COLLECTIONS[collection]
    assert read_quietly(folder, fold=2, split="train") == [20]
    assert read_quietly(folder, fold=5, split="vali") == read_quietly(folder, fold=5, split="valid") == [51]
    assert read_quietly(folder, split="test") == [12]  # fold 1 unless told
    assert read_quietly(folder, fold=3) == [30, 31, 32]


def test_the_folder_of_a_fold_is_that_fold(tmp_path: Path) -> None:
    folder = tmp_path / "MSLR-WEB10K"
    write_folds(folder, 136, ("train.txt", "vali.txt", "test.txt"))
    assert find_collection(folder / "Fold4") is COLLECTIONS["MSLR-WEB10K"]
    assert read_quietly(folder / "Fold4", split="train") == [40]
    with pytest.raises(BadInput, match=r"has the folds 4. Got fold=1"):
        read_collection(folder / "Fold4", fold=1)


def test_pieces_rotate_as_letor_says(tmp_path: Path) -> None:
    folder = tmp_path / "mq2008"
    write_pieces(folder, 46)
    assert find_collection(folder) is COLLECTIONS["MQ2008"]
    assert read_quietly(folder, fold=1, split="train") == [1, 2, 3]
    assert read_quietly(folder, fold=1, split="valid") == [4]
    assert read_quietly(folder, fold=1, split="test") == [5]
    assert read_quietly(folder, fold=4, split="train") == [4, 5, 1]
    assert read_quietly(folder, fold=4, split="valid") == [2]
    assert read_quietly(folder, fold=4, split="test") == [3]
    assert read_quietly(folder) == [1, 2, 3, 4, 5]


def test_every_piece_tests_once_and_validates_once() -> None:
    turns = [rotate_parts(fold) for fold in range(1, 6)]
    assert sorted(turn["test"][0] for turn in turns) == [1, 2, 3, 4, 5]
    assert sorted(turn["valid"][0] for turn in turns) == [1, 2, 3, 4, 5]
    assert all(sorted(sum(turn.values(), ())) == [1, 2, 3, 4, 5] for turn in turns)


def test_ohsumed_reads_null_as_missing_and_min_by_default(tmp_path: Path) -> None:
    folder = tmp_path / "any name"
    write_pieces(folder / "Feature-min", 45, values={7: "3.5"})
    write_pieces(folder / "Feature-null", 45, values={7: "NULL"})
    assert find_collection(folder) is COLLECTIONS["OHSUMED"]  # by its two folders
    with pytest.warns(Mismatch, match="OHSUMED has 106 queries and 16,140 rows"):
        filled = read_collection(folder)
    with pytest.warns(Mismatch):
        missing = read_collection(folder, variant="null")
    assert set(filled.X[:, 6]) == {3.5}
    assert np.isnan(missing.X[:, 6]).all()
    assert filled.items is not None
    assert missing.feature_names == name_ohsumed_features()
    (folder / "Feature-null").rename(tmp_path / "ohsumed")
    with pytest.raises(BadInput, match="these variants: min, null, norm"):
        read_collection(tmp_path / "ohsumed", variant="max")


def test_a_variants_own_folder_needs_no_variant(tmp_path: Path) -> None:
    folder = tmp_path / "OHSUMED" / "Feature-null"
    write_pieces(folder, 45, values={7: "NULL"})
    assert find_collection(folder) is COLLECTIONS["OHSUMED"]
    assert read_quietly(folder, split="test") == [5]


@pytest.mark.parametrize(
    ("path", "files", "name"),
    [
        ("istella-letor/full", ("train", "test"), "Istella"),
        ("istella-letor", ("train", "test"), "Istella"),
        ("istella-s-letor/sample", ("train", "vali", "test"), "Istella-S"),
        ("istella/sample", ("train", "vali", "test"), "Istella-S"),
        ("Istella-X", ("train", "vali", "test"), "Istella-X"),
        ("ltrc_yahoo", ("set1.train", "set1.valid", "set1.test"), "Yahoo Set 1"),
        ("no name at all", ("set2.train", "set2.valid", "set2.test"), "Yahoo Set 2"),
    ],
)
def test_collections_without_folds(tmp_path: Path, path: str, files: tuple[str, ...], name: str) -> None:
    for place, file in enumerate(files):
        write_rows(tmp_path / path / f"{file}.txt", place + 1, WIDTH[name])
    outer = tmp_path / Path(path).parts[0]
    assert find_collection(tmp_path / path) is find_collection(outer) is COLLECTIONS[name]
    assert read_quietly(outer) == list(range(1, len(files) + 1))
    assert read_quietly(tmp_path / path, split="test") == [len(files)]
    with pytest.raises(BadInput, match="no folds"):
        read_collection(outer, fold=1)


def test_istella_has_no_validation_split(tmp_path: Path) -> None:
    write_rows(tmp_path / "istella" / "train.txt", 1, 220)
    with pytest.raises(BadInput, match=r"splits train, test. Got 'vali'"):
        read_collection(tmp_path / "istella", split="vali")


def test_yahoos_two_sets_in_one_folder_are_told_apart_by_name(tmp_path: Path) -> None:
    write_rows(tmp_path / "set1.train.txt", 1, 700)
    write_rows(tmp_path / "set2.train.txt", 2, 600)
    with pytest.warns(Guess, match="set 1 is read"):
        assert read_quietly(tmp_path) == [1]
    assert read_quietly(tmp_path, name="yahoo set 2") == [2]
    with pytest.warns(Mismatch, match="Yahoo Set 2 train has 1,266 queries and 34,815 rows"):
        assert read_collection(tmp_path, name="Yahoo Set 2", split="train").n_features == 700


def test_published_counts_are_compared(tmp_path: Path) -> None:
    folder = tmp_path / "MSLR-WEB30K"
    write_folds(folder, 136, ("train.txt", "vali.txt", "test.txt"))
    with pytest.warns(Mismatch, match=r"fold 1 train has 18,919 queries and 2,270,296 rows .* Got 1 and 2"):
        read_collection(folder, split="train")
    with pytest.warns(Mismatch, match="MSLR-WEB30K has 31,531 queries and 3,771,125 rows"):
        read_collection(folder, fold=2)
    read_collection(folder, fold=2, split="train")  # nothing is published of it: nothing is said


def test_matching_counts_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pieces(tmp_path / "MQ2007", 46)
    monkeypatch.setitem(COLLECTIONS["MQ2007"].sizes, (None, None), (5, 10))  # type: ignore[arg-type]
    assert read_collection(tmp_path / "MQ2007").n_rows == 10


def test_published_parts_add_up() -> None:
    for collection in COLLECTIONS.values():
        for fold in range(1, 6) if collection.folds else (None,):
            parts = [collection.sizes.get((fold, split)) for split in collection.splits]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                total = tuple(sum(column) for column in zip(*known, strict=True))
                assert total == collection.sizes[None, None], (collection.name, fold)


def write_istella(folder: Path) -> None:
    write_rows(folder / "train.txt", 1, 220, {53: "1.79769313486e+308"})
    write_rows(folder / "vali.txt", 2, 220)
    write_rows(folder / "test.txt", 3, 220, {112: "-1.79769313486e+308"})


@pytest.mark.filterwarnings("ignore:.*as published:placings.core.errors.Mismatch")
class TestIllegitimateFeatures:
    def test_they_are_named_and_dropped_from_all_parts(self, tmp_path: Path) -> None:
        write_istella(tmp_path / "istella-s")
        with pytest.warns(Mismatch, match=r"2 of 220 features .* 53 \(2 rows\), 112 \(2 rows\).*\[53, 112\]"):
            data = read_collection(tmp_path / "istella-s")
        assert data.n_features == 218
        assert not {"f53", "f112"} & set(data.feature_names)
        assert np.isfinite(data.X).all()

    def test_one_split_may_show_fewer(self, tmp_path: Path) -> None:
        write_istella(tmp_path / "istella-s")
        with pytest.warns(Mismatch, match="1 of 220"):
            assert read_collection(tmp_path / "istella-s", split="train").n_features == 219
        assert read_collection(tmp_path / "istella-s", split="valid").n_features == 220

    @pytest.mark.parametrize("split", ["train", "valid", "test", None])
    def test_numbers_drop_the_same_from_every_split(self, tmp_path: Path, split: str | None) -> None:
        write_istella(tmp_path / "istella-s")
        data = read_collection(tmp_path / "istella-s", split=split, illegitimate=[53, 112])
        assert data.n_features == 218

    def test_a_feature_not_among_the_numbers_stays_missing_and_is_said(self, tmp_path: Path) -> None:
        write_istella(tmp_path / "istella-s")
        with pytest.warns(Mismatch, match="Those not named are read as missing"):
            data = read_collection(tmp_path / "istella-s", illegitimate=[53])
        assert data.n_features == 219
        assert np.isnan(data.X[:, data.feature_names.index("f112")]).sum() == 2

    def test_they_can_be_kept_as_missing(self, tmp_path: Path) -> None:
        write_istella(tmp_path / "istella-s")
        with pytest.warns(Mismatch, match="read as missing"):
            data = read_collection(tmp_path / "istella-s", illegitimate="missing")
        assert np.isnan(data.X[:2, 52]).all()
        assert int(np.isnan(data.X).sum()) == 4

    def test_sparse_rows_show_them_too(self, tmp_path: Path) -> None:
        write_istella(tmp_path / "istella-s")
        with pytest.warns(Mismatch, match=r"53 \(2 rows\), 112 \(2 rows\)"):
            data = read_collection(tmp_path / "istella-s", sparse=True)
        assert data.is_sparse
        assert data.n_features == 218

    def test_they_can_be_refused(self, tmp_path: Path) -> None:
        write_istella(tmp_path / "istella-s")
        with pytest.raises(BadInput, match=r"53 \(2 rows\)"):
            read_collection(tmp_path / "istella-s", illegitimate="error")

    @pytest.mark.parametrize("rule", ["keep", [0], [221]])
    def test_a_rule_that_is_none_is_refused(self, tmp_path: Path, rule: object) -> None:
        write_istella(tmp_path / "istella-s")
        with pytest.raises(BadInput, match="illegitimate"):
            read_collection(tmp_path / "istella-s", illegitimate=rule)  # type: ignore[arg-type]


def test_features_have_their_published_names() -> None:
    mslr, letor, ohsumed = name_mslr_features(), name_letor4_features(), name_ohsumed_features()
    assert [len(set(names)) for names in (mslr, letor, ohsumed)] == [136, 46, 45]
    assert mslr[0] == "covered query term number body"
    assert mslr[54] == "min of stream length normalized term frequency whole document"
    assert mslr[109] == "BM25 whole document"
    assert mslr[125:131] == (
        "Number of slash in URL", "Length of URL", "Inlink number", "Outlink number", "PageRank", "SiteRank",
    )  # fmt: skip
    assert (letor[0], letor[24], letor[40], letor[45]) == (
        "TF body", "BM25 whole document", "PageRank", "Number of child page",
    )  # fmt: skip
    assert (ohsumed[0], ohsumed[10], ohsumed[44]) == (
        "sum of c title",
        "BM25 title",
        "LMIR.ABS title+abstract",
    )


@pytest.mark.parametrize("name", ["MQ2008-list", "istella22", "my data", "MQ2007-semi"])
def test_other_folders_are_not_taken_for_a_known_one(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    write_folds(folder, 46, ("train.txt", "vali.txt", "test.txt"))
    write_rows(folder / "train.txt", 1, 46)
    assert find_collection(folder) is None
    with pytest.raises(BadFile, match=r"known collection. It holds Fold1, .* MQ2007"):
        read_collection(folder)


def test_a_name_alone_is_not_a_collection(tmp_path: Path) -> None:
    (tmp_path / "MQ2007").mkdir()
    assert find_collection(tmp_path / "MQ2007") is None
    assert find_collection(tmp_path / "nowhere") is None
    with pytest.raises(BadFile, match="It holds nothing"):
        read_collection(tmp_path / "MQ2007")
    with pytest.raises(BadFile, match="no files of MQ2007"):
        read_collection(tmp_path / "MQ2007", name="mq2007")
    with pytest.raises(BadFile, match="not a folder"):
        read_collection(tmp_path / "nowhere")


def test_errors_say_what_exists(tmp_path: Path) -> None:
    folder = tmp_path / "MSLR-WEB10K"
    write_rows(folder / "Fold1" / "train.txt", 1, 136)
    with pytest.raises(BadInput, match=r"has the folds 1\. Got fold=2"):
        read_collection(folder, fold=2)
    with pytest.raises(BadInput, match="Got 'dev'"):
        read_collection(folder, split="dev")
    with pytest.raises(BadFile, match="no file of the test split"):
        read_collection(folder, split="test")
    with pytest.raises(BadInput, match="these variants: none"):
        read_collection(folder, variant="min")
    with pytest.raises(UnknownName, match="did you mean 'MSLR-WEB10K'"):
        read_collection(folder, name="MSLR-WEB11K")


def test_the_plain_file_is_read_before_a_packed_one(tmp_path: Path) -> None:
    write_rows(tmp_path / "istella" / "train.txt.gz", 1, 220)
    write_rows(tmp_path / "istella" / "train.txt", 2, 220)
    assert read_quietly(tmp_path / "istella", split="train") == [2]


def test_a_qid_in_two_parts_is_an_error_unless_joined(tmp_path: Path) -> None:
    write_rows(tmp_path / "istella" / "train.txt", 1, 220)
    write_rows(tmp_path / "istella" / "test.txt", 1, 220)
    with pytest.raises(BadInput, match="repeated_qid='join'"):
        read_collection(tmp_path / "istella")
    assert read_quietly(tmp_path / "istella", repeated_qid="join") == [1]


def test_files_are_read_by_the_given_reader(tmp_path: Path) -> None:
    from placings.data.svmlight import read_svmlight

    write_pieces(tmp_path / "MQ2007", 46)
    seen = []

    def read_file(path: Path, **options: object) -> object:
        seen.append((path.name, options.pop("progress")))
        return read_svmlight(path, **options)  # type: ignore[arg-type]

    assert read_quietly(tmp_path / "MQ2007", split="test", read_file=read_file, progress=False) == [5]
    assert seen == [("S5.txt.gz", False)]
