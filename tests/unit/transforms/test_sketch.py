"""The sketch: exact while few, then within the error it states, however its values came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import placings.transforms.sketch as sketch_module
from placings.core.errors import BadInput
from placings.transforms.sketch import Sketch, count_values, join_sketches, split_sketches

Array = np.ndarray[Any, Any]


def floats(values: Any) -> Array:
    return np.array(values, dtype=np.float32)


def worst_share(sketch: Sketch, values: Array) -> float:
    """The largest distance from the true share below x, over x on, between and beyond all values."""
    ordered = np.sort(values)
    x = np.concatenate([ordered, (ordered[1:] + ordered[:-1]) / 2, [ordered[0] - 1, ordered[-1] + 1]])
    true = np.searchsorted(ordered, x, side="left") / len(ordered)
    return float(np.abs(sketch.shares()[np.searchsorted(sketch.values, x, side="left")] - true).max())


def test_values_are_counted_exactly_and_minus_zero_is_zero() -> None:
    sketch = count_values(floats([2, -0.0, 0.0, 2, 2, 5]))
    assert sketch.values.tolist() == [0, 2, 5]
    assert not np.signbit(sketch.values).any()
    assert sketch.up.tolist() == sketch.down.tolist() == [2, 3, 1]
    assert sketch.shares().tolist() == [0, 2 / 6, 5 / 6, 1]
    assert (sketch.gap, sketch.error, sketch.count) == (0, 0.0, 6)


def test_no_values_have_no_median_and_a_share_of_zero() -> None:
    empty = count_values(floats([]))
    assert empty.shares().tolist() == [0]
    assert np.isnan(empty.median())
    assert np.isnan(empty.value_at(0.5))
    assert len(empty.merge(empty, 4)) == 0
    assert empty.merge(count_values(floats([3])), 4).values.tolist() == [3]


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=60))
def test_medians_and_quantiles_are_numpys(numbers: list[int]) -> None:
    sketch = count_values(floats(numbers))
    assert sketch.median() == np.median(numbers)
    for share in (0.0, 0.01, 0.25, 0.5, 0.9, 1.0):
        assert sketch.value_at(share) == np.quantile(numbers, share, method="inverted_cdf")


@given(
    st.lists(st.lists(st.integers(-300, 300), max_size=80), min_size=1, max_size=12),
    st.integers(2, 12),
    st.booleans(),
)
def test_the_stated_error_holds_for_any_chunks_and_any_order_of_merging(
    chunks: list[list[int]], bound: int, shrunk_first: bool
) -> None:
    sketches = [count_values(floats(chunk)) for chunk in chunks]
    sketches = [each.shrink(bound) for each in sketches] if shrunk_first else sketches
    while len(sketches) > 1:
        sketches = [sketches[0].merge(sketches[1], bound), *sketches[2:]][:: -1 if shrunk_first else 1]
    values = floats([number for chunk in chunks for number in chunk])
    sketch = sketches[0].finish(bound)
    assert sketch.count == len(values)
    if len(values) == 0:
        return
    assert len(sketch) <= bound + 1
    assert worst_share(sketch, values) <= sketch.error + 1e-9
    assert (sketch.values[0], sketch.values[-1]) == (values.min(), values.max())
    if len(np.unique(values)) <= bound:
        assert sketch.error == 0
        np.testing.assert_array_equal(sketch.values, np.unique(values))


@pytest.mark.parametrize("kind", ["normal", "drift", "sorted", "narrowing", "ties"])
def test_a_stream_of_chunks_stays_within_one_over_the_bound_and_in_little_memory(kind: str) -> None:
    rng = np.random.default_rng(0)
    bound, sketch, seen = 200, count_values(floats([])), []
    for step in range(60):
        noise = rng.normal(size=1500)
        chunk = {
            "normal": noise,
            "drift": noise + step / 10,
            "sorted": np.sort(noise) + 10 * step,
            "narrowing": noise * 0.9**step,
            "ties": np.round(noise * 300) * (rng.random(1500) < 0.5),
        }[kind]
        seen.append(floats(chunk))
        sketch = sketch.merge(count_values(seen[-1]), bound)
    assert len(sketch) <= 16 * bound
    final = sketch.finish(bound)
    assert final.error <= 1 / bound
    assert worst_share(final, np.concatenate(seen)) <= final.error + 1e-9
    assert len(final) <= bound + 1


@pytest.mark.parametrize("machines", [2, 8, 32])
def test_merged_machines_stay_within_one_over_the_bound(machines: int) -> None:
    rng = np.random.default_rng(0)
    bound = 100
    seen = [floats(rng.normal(size=1000)) for _ in range(machines)]
    sketch = count_values(floats([]))
    for values in seen:
        sketch = sketch.merge(count_values(values).shrink(bound), bound)
    final = sketch.finish(bound)
    assert worst_share(final, np.concatenate(seen)) <= final.error + 1e-9 <= 1 / bound + 1e-9


def test_many_merged_machines_keep_memory_bounded_and_say_what_it_costs() -> None:
    rng = np.random.default_rng(0)
    bound, seen = 20, []
    sketch = count_values(floats([]))
    for _ in range(300):
        seen.append(floats(rng.normal(size=200)))
        sketch = sketch.merge(count_values(seen[-1]).shrink(bound), bound)
        assert len(sketch) <= 16 * bound
    final = sketch.finish(bound)
    assert worst_share(final, np.concatenate(seen)) <= final.error + 1e-9 <= 3 / bound


def test_compiled_and_plain_loops_choose_the_same_knots(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = count_values(floats(np.random.default_rng(0).normal(size=3000)))
    first = sketch.drop_knots(50)
    second = first.merge(sketch, 10_000).drop_knots(120)
    monkeypatch.setattr(sketch_module, "HAVE_NUMBA", False)
    np.testing.assert_array_equal(sketch.drop_knots(50).values, first.values)
    again = first.merge(sketch, 10_000).drop_knots(120)
    np.testing.assert_array_equal(again.values, second.values)
    np.testing.assert_array_equal(again.down, second.down)


def test_sketches_travel_as_flat_arrays_and_wrong_ones_are_refused() -> None:
    sketches = [count_values(floats(values)) for values in ([1, 2, 2], [], [5])]
    arrays: Any = join_sketches(sketches)
    back = split_sketches(arrays["knots"], arrays["up"], arrays["down"], arrays["knot_offsets"])
    assert [each.values.tolist() for each in back] == [[1, 2], [], [5]]
    assert [each.up.tolist() for each in back] == [[1, 2], [], [1]]
    with pytest.raises(BadInput, match="must rise"):
        split_sketches(arrays["knots"][::-1], arrays["up"], arrays["down"], arrays["knot_offsets"])
    with pytest.raises(BadInput, match="0 or more"):
        split_sketches(arrays["knots"], -arrays["up"], arrays["down"], arrays["knot_offsets"])
    with pytest.raises(BadInput, match="add up"):
        split_sketches(arrays["knots"], arrays["up"] + 1, arrays["down"], arrays["knot_offsets"])
