"""Figure 2, its claims, the learned curves and the history as pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.data.collections import name_mslr_features
from placings.data.ranking import RankingData
from placings.report.mixture_figures import (
    FIGURE_2,
    MOST_ROWS,
    STATEMENTS,
    MixtureShares,
    average_shares,
    check_claims,
    choose_shown,
    draw_curves,
    draw_mixture,
    gather_shares,
    measure_effects,
)
from placings.report.run_figures import draw_history, thin_out
from placings.training.plans import History
from placings.transforms import Log1p, Mixture, Transform

BASIS = ("raw", "gauss", "cdf", "log1p")


def read_words(path: Path) -> list[str]:
    """The words of an SVG file, in drawing order."""
    root = ElementTree.fromstring(path.read_text())
    return ["".join(each.itertext()).strip() for each in root.iter() if each.tag.endswith("text")]


def share_out(choices: dict[str, str], strength: float = 0.7) -> MixtureShares:
    """Shares of WEB30K's features: `strength` on the transform chosen, the rest shared evenly; else even."""
    rest = (1.0 - strength) / 3
    rows = [
        [strength if name == choices[feature] else rest for name in BASIS]
        if feature in choices
        else [0.25] * 4
        for feature in name_mslr_features()
    ]
    return MixtureShares(name_mslr_features(), BASIS, np.array(rows))


AS_CLAIMED = {feature: each.transform for each in STATEMENTS for feature in each.features}


def test_the_features_of_figure_2_are_web30k_features() -> None:
    assert set(FIGURE_2) <= set(name_mslr_features())
    assert len(FIGURE_2) == 7


def test_web30k_data_show_the_papers_features_in_its_order(tmp_path: Path) -> None:
    words = read_words(draw_mixture(share_out(AS_CLAIMED), tmp_path / "figure2.svg"))
    assert [word for word in words if word in FIGURE_2] == list(FIGURE_2)
    assert words[:4] == list(BASIS)
    assert words.count("0.70") == 7


def test_other_data_show_all_features_or_the_most_decided_grouped_by_their_transform() -> None:
    few = MixtureShares(("a", "b", "c"), ("raw", "cdf"), np.array([[0.3, 0.7], [0.9, 0.1], [0.2, 0.8]]))
    assert choose_shown(few) == ["b", "c", "a"]
    shares = np.full((40, 2), 0.5)
    shares[7] = [0.9, 0.1]
    many = MixtureShares(tuple(f"f{n}" for n in range(40)), ("raw", "cdf"), shares)
    chosen = choose_shown(many)
    assert len(chosen) == MOST_ROWS
    assert chosen[0] == "f7"


def test_a_picture_is_the_same_bytes_each_time_and_a_png_if_its_name_says_so(tmp_path: Path) -> None:
    shares = gather_shares({"a $x$ & b": [0.5, 0.5]}, basis=["raw", "cdf"])
    first, second = (draw_mixture(shares, tmp_path / name) for name in ("one.svg", "two.svg"))
    assert first.read_bytes() == second.read_bytes()
    assert "a $x$ & b" in read_words(first)
    assert draw_mixture(shares, tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(BadInput, match=".svg or .png"):
        draw_mixture(shares, tmp_path / "one.pdf")
    with pytest.raises(UnknownName, match="no feature 'c'"):
        draw_mixture(shares, tmp_path / "one.svg", ["c"])


def test_shares_come_from_a_mixture_a_frame_or_a_mapping_and_from_nothing_else() -> None:
    mixture = Mixture(("raw", "cdf")).fit([[1.0], [2.0]])
    assert gather_shares(mixture).shares.tolist() == [[0.5, 0.5]]
    frame = pd.DataFrame([[0.2, 0.8]], index=["clicks"], columns=["raw", "cdf"])
    assert gather_shares(frame).features == ("clicks",)
    with pytest.raises(BadInput, match="is not fitted"):
        gather_shares(Mixture())
    with pytest.raises(BadInput, match="needs basis="):
        gather_shares({"clicks": [0.2, 0.8]})
    with pytest.raises(BadInput, match="Got Log1p"):
        gather_shares(Log1p().fit([[1.0]]))


def test_the_mean_of_fits_is_the_mean_of_shares() -> None:
    one, two = (MixtureShares(("a",), ("raw", "cdf"), np.array([row])) for row in ([0.2, 0.8], [0.6, 0.4]))
    assert average_shares([one, two]).shares.tolist() == [[0.4, pytest.approx(0.6)]]
    with pytest.raises(BadInput, match="same features"):
        average_shares([one, MixtureShares(("b",), ("raw", "cdf"), one.shares)])


# -- the claims ------------------------------------------------------------------------------------


def test_claims_hold_where_the_mixture_does_what_the_paper_says() -> None:
    assert [claim.holds for claim in check_claims(share_out(AS_CLAIMED))] == [True, True, True]


def test_one_feature_that_does_otherwise_contradicts_its_claim_and_is_named() -> None:
    claims = check_claims(share_out({**AS_CLAIMED, "PageRank": "cdf"}))
    assert [claim.holds for claim in claims] == [True, False, True]
    assert "PageRank uses 10% log1p (most of all cdf, 70%)" in claims[1].evidence
    assert "does not hold" in str(claims[1])


def test_only_raw_means_more_than_half() -> None:
    assert [claim.holds for claim in check_claims(share_out(AS_CLAIMED, 0.46))] == [False, True, True]


def test_other_streams_are_counted_but_do_not_decide() -> None:
    claim = check_claims(share_out({**AS_CLAIMED, "BM25 title": "raw"}))[0]
    assert "for 4 of 15 such features" in claim.evidence


def test_what_cannot_be_said_is_said_so() -> None:
    lacking = check_claims(gather_shares({"clicks": [1.0, 0.0]}, basis=["raw", "log1p"]))
    assert [claim.holds for claim in lacking] == [None, None, None]
    assert "cannot be said. The data lack 'sum of tf*idf body'" in str(lacking[0])
    without = check_claims(gather_shares({"PageRank": [1.0], "Outlink number": [1.0]}, basis=["cdf"]))
    assert [claim.holds for claim in without] == [None, None, True]
    assert "was not offered log1p" in without[1].evidence
    assert "lack 'sum of stream length" in without[2].evidence


def test_gauss_stands_for_raw_where_the_basis_has_no_raw() -> None:
    claim = check_claims(gather_shares({"bm25 BODY": [0.8, 0.2]}, basis=["gauss", "cdf"]))[0]
    assert claim.holds
    assert "gauss stands for raw" in claim.evidence


def test_a_small_share_of_large_values_is_most_of_what_varies() -> None:
    x = np.array([[0.0], [1000.0], [2000.0]], dtype=np.float32)
    data = RankingData.from_arrays(x, [0, 1, 2], [1] * 3, feature_names=["views"])
    mixture = Mixture(("raw", "cdf")).fit(x)
    effects = measure_effects(mixture_named(mixture, "views"), data)
    # half of raw varies by sd 816.5 / 2, half of the CDF (0, 1/3, 2/3) by 0.272 / 2
    assert effects.shares[0, 0] == pytest.approx(816.4966 / (816.4966 + 0.27217), rel=1e-5)
    constant = RankingData.from_arrays(np.ones((3, 1)), [0, 1, 2], [1] * 3, feature_names=["views"])
    assert measure_effects(mixture_named(mixture, "views"), constant).shares.tolist() == [[0.5, 0.5]]


def mixture_named(mixture: Mixture, *names: str) -> object:
    """What a ranker is to a figure: a transform, and the features' names."""

    class Named:
        transform_ = mixture
        feature_names_ = names

    return Named()


# -- curves and history ----------------------------------------------------------------------------


def test_curves_are_drawn_for_the_features_named_on_an_axis_that_fits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([np.exp(3 * rng.normal(size=200)), rng.normal(size=200)]).astype(np.float32)
    ranker = mixture_named(Mixture().fit(x), "views $", "score")
    words = read_words(draw_curves(ranker, tmp_path / "curves.svg"))
    assert {"views $", "score", "mixture", "log1p × its share"} <= set(words)
    alone = read_words(draw_curves(ranker, tmp_path / "score.svg", ["score"]))
    assert "views $" not in alone
    with pytest.raises(UnknownName, match="did you mean 'score'"):
        draw_curves(ranker, tmp_path / "no.svg", ["scores"])
    assert "f1" in read_words(draw_curves(Log1p().fit(x), tmp_path / "single.svg"))


def test_a_restored_transform_is_drawn_over_the_range_of_data(tmp_path: Path) -> None:
    x = np.array([[1.0], [5.0], [np.nan]], dtype=np.float32)
    restored = Transform.from_state(*Mixture().fit(x).state())
    with pytest.raises(BadInput):
        draw_curves(restored, tmp_path / "curves.svg")
    data = RankingData.from_arrays(x, [0, 1, 0], [1] * 3)
    assert draw_curves(restored, tmp_path / "curves.svg", data=data).stat().st_size > 1000


def test_a_coordinate_of_a_vector_has_no_curve(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "c": [3.0, 4.0]})
    mixture = Mixture(groups={"v": ["a", "b"]}).fit(frame)
    with pytest.raises(BadInput, match="'a' is a coordinate of a vector"):
        draw_curves(mixture, tmp_path / "curves.svg", ["a"])
    assert draw_curves(mixture, tmp_path / "curves.svg", ["c"]).exists()


def test_a_history_shows_its_four_lines_and_the_best_check(tmp_path: Path) -> None:
    history = History(
        loss=[3.0, 2.0, 1.0], gradient=[100.0, 1.0, 0.5], lr=[0.1, 0.1, 0.1], checks=[(2, 0.4), (3, 0.3)],
        best_step=2, metric="ndcg@5",
    )  # fmt: skip
    words = read_words(draw_history(history, tmp_path / "history.svg"))
    assert {"loss", "gradient norm", "learning rate", "valid ndcg@5", "best: 0.4000 at step 2"} <= set(words)
    unchecked = History(loss=[1.0] * 2000, gradient=[1.0] * 2000, lr=[0.1] * 2000)
    drawn = draw_history(unchecked, tmp_path / "long.svg")
    assert not any("valid" in word for word in read_words(drawn))
    assert drawn.stat().st_size < 200_000  # 2,000 steps are thinned out
    with pytest.raises(BadInput, match="no step was taken"):
        draw_history(History(), tmp_path / "none.svg")
    with pytest.raises(BadInput, match="Got int"):
        draw_history(3, tmp_path / "none.svg")


def test_thinning_out_keeps_the_mean_and_the_extremes() -> None:
    values = np.sin(np.arange(1003)).tolist()
    steps, mean, low, high = thin_out(values, most=100)
    assert len(steps) == 100
    assert low.min() == min(values)
    assert high.max() == max(values)
    assert ((low <= mean) & (mean <= high)).all()
