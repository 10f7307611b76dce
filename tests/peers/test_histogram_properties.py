"""Histograms, borders and bins: NumPy's counts to the last row, and what scikit-learn's binning promises."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

NAN, INF = float("nan"), float("inf")


def of(values: Any, dtype: Any = None, **params: Any) -> tuple[np.ndarray, np.ndarray]:
    """Heights and edges of a histogram of values."""
    df = pl.DataFrame({"x": pl.Series(values, dtype=dtype)})
    return read(df.select(tg.histogram("x", **params)).item())


def weighted(values: Any, weights: Any, **params: Any) -> tuple[np.ndarray, np.ndarray]:
    df = pl.DataFrame({"x": values, "w": weights})
    return read(df.select(tg.histogram("x", weights="w", **params)).item())


def read(bins: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    frame = bins.struct.unnest()
    # Dates as their numbers: with NumPy 2 the first Polars 1 ends the process in `to_numpy` of these.
    edges = np.append(frame["lower"].to_physical().to_numpy(), frame["upper"].to_physical()[-1])
    assert frame["upper"][:-1].to_list() == frame["lower"][1:].to_list()
    return frame.to_series(2).to_numpy(), edges


def check(values: Any, **params: Any) -> None:
    """The same counts and edges as NumPy's."""
    array = np.asarray(values)
    names = {"bins": params.get("bins", 10)}
    if "range" in params:
        names["range"] = params["range"]
    want, edges = np.histogram(array, **names)
    got, got_edges = of(values, **params)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got_edges, edges)


def test_the_counts_sum_to_the_number_of_rows() -> None:
    counts, _ = of(np.random.default_rng(0).random(100))
    assert counts.sum() == 100


def test_evenly_spaced_values_fill_bins_evenly() -> None:
    counts, _ = of(np.linspace(0, 10, 100))
    assert counts.tolist() == [10] * 10


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 100, 8_296])
@pytest.mark.parametrize("seed", range(3))
def test_counts_and_edges_are_those_of_numpy(bins: int, seed: int) -> None:
    check(np.random.default_rng(seed).normal(size=500), bins=bins)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32"])
def test_every_type_counts_as_in_numpy(dtype: str) -> None:
    check(np.random.default_rng(1).integers(0, 100, 300).astype(dtype), bins=7)


def test_one_bin_holds_both_of_its_edges() -> None:
    check([1, 2, 3, 4], bins=[1, 2])
    check([1, 2], bins=1)


@pytest.mark.parametrize("bins", [0, -1, 1_000_001])
def test_a_number_of_bins_out_of_range_is_an_error(bins: int) -> None:
    with pytest.raises(ValueError, match="bins"):
        of([1, 2], bins=bins)


@pytest.mark.parametrize("bins", [2.4, "auto", True])
def test_a_number_of_bins_of_another_type_is_an_error(bins: Any) -> None:
    with pytest.raises(TypeError, match="bins"):
        of([1, 2], bins=bins)


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        (range(10), [0, 1, 3, 6, 10]),
        (range(10), [0, 1, 3, 6, INF]),
        ([1, 2, 3, 4], [0.5, 1.5, INF]),
        (range(10), [-INF, 2, INF]),
    ],
    ids=str,
)
def test_densities_are_those_of_numpy_between_any_edges(values: Any, edges: list[float]) -> None:
    got, _ = of(list(values), bins=edges, density=True)
    np.testing.assert_allclose(got, np.histogram(list(values), edges, density=True)[0], rtol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_a_density_s_integral_is_one(seed: int) -> None:
    got, edges = of(np.random.default_rng(seed).normal(size=333), bins=17, density=True)
    assert (got * np.diff(edges)).sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("range_", [(0, 9), (1, 10), (1, 9), (-5, 100)], ids=str)
def test_values_outside_the_range_are_not_counted(range_: Any) -> None:
    check(np.arange(10) + 0.5, range=range_)
    density, edges = of(np.arange(10) + 0.5, range=range_, density=True)
    assert (density * np.diff(edges)).sum() == pytest.approx(1, rel=1e-12)


def test_weights_outside_the_range_are_not_summed() -> None:
    values = np.arange(10) + 0.5
    got, _ = weighted(values, values, bins=8, range=(1, 9))
    np.testing.assert_array_equal(got, values[1:-1])


def test_equal_weights_multiply_the_counts_and_leave_the_density() -> None:
    values = np.random.default_rng(0).random(100)
    five = np.full(100, 5.0)
    np.testing.assert_allclose(weighted(values, five)[0], 5 * of(values)[0])
    np.testing.assert_allclose(weighted(values, five, density=True)[0], of(values, density=True)[0])


def test_each_weight_is_added_to_its_own_bin() -> None:
    got, _ = weighted(np.linspace(0, 10, 10), np.repeat([0.0, 1.0], 5), bins=list(range(11)))
    np.testing.assert_array_equal(got, np.repeat([0.0, 1.0], 5))
    got, _ = weighted([1, 2, 2, 4], [4, 3, 2, 1], bins=4)
    np.testing.assert_array_equal(got, [4, 5, 0, 1])
    got, _ = weighted([1, 2, 2, 4], [4, 3, 2, 1], bins=4, density=True)
    np.testing.assert_allclose(got, np.array([4, 5, 0, 1]) / 10 / 3 * 4)


def test_weighted_densities_between_edges_of_any_width_are_those_of_numpy() -> None:
    weights = [2, 1, 1, 1, 1, 1, 1, 1, 1]
    got, _ = weighted(np.arange(9), weights, bins=[0, 1, 3, 6, 10], density=True)
    np.testing.assert_allclose(got, [0.2, 0.1, 0.1, 0.075])


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_weights_are_those_of_numpy_to_the_last_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=1_000), rng.normal(size=1_000)
    want, _ = np.histogram(values, 20, weights=weights)
    np.testing.assert_array_equal(weighted(values, weights, bins=20)[0], want)


def test_negative_weights_are_summed_as_they_are() -> None:
    got, _ = weighted([1.3, 2.5, 2.3], [1.0, -1.0, 2.0], bins=[0, 2, 3])
    np.testing.assert_array_equal(got, [1, 1])


def test_weights_of_another_length_are_an_error() -> None:
    with pytest.raises(pl.exceptions.PolarsError):
        pl.DataFrame({"x": [1.0, 2.0, 3.0]}).select(tg.histogram("x", weights=pl.col("x").head(2).alias("w")))


@pytest.mark.parametrize(
    ("params", "dtype"),
    [({}, "count"), ({"density": True}, "density"), ({"weights": "w"}, "weight")],
    ids=["count", "density", "weight"],
)
def test_counts_are_integers_and_sums_are_floats(params: Any, dtype: str) -> None:
    df = pl.DataFrame({"x": [1.0, 2.0], "w": [1, 2]})
    field = df.select(tg.histogram("x", **params)).to_series().dtype.inner.fields[-1]  # type: ignore[union-attr]
    assert field.name == dtype
    assert field.dtype.is_integer() == (dtype == "count")


def test_booleans_count_as_zeros_and_ones() -> None:
    np.testing.assert_array_equal(of([True, True, False])[0], np.histogram(np.array([1, 1, 0], dtype=np.uint8))[0])


def test_no_values_fill_no_bin() -> None:
    check(np.array([]), bins=[0, 1])
    check(np.array([]), bins=3)


@pytest.mark.parametrize("range_", [(NAN, 0.75), (0.25, INF), (-INF, 1.0)], ids=str)
def test_a_range_that_is_not_finite_is_an_error(range_: Any) -> None:
    with pytest.raises(ValueError, match="range"):
        of(np.linspace(0, 1, 100), range=range_)


def test_a_range_that_ends_before_it_begins_is_an_error() -> None:
    with pytest.raises(ValueError, match="range"):
        of([0.5], range=(0.1, 0.01))


@pytest.mark.parametrize("edges", [[1, 3, 1], [2.0, 1.0], [1.0, NAN, 2.0], [1.0]], ids=str)
def test_edges_that_do_not_ascend_are_an_error(edges: list[float]) -> None:
    with pytest.raises(ValueError, match="parameter `bins`"):
        of([2], bins=edges)


def test_nested_edges_are_an_error() -> None:
    with pytest.raises(TypeError, match="parameter `bins`"):
        of([0.5], bins=[[0, 0.5], [0.6, 1.0]])  # type: ignore[list-item]


def test_values_on_an_edge_belong_to_the_bin_that_begins_there() -> None:
    values = np.array([337, 404, 739, 806, 1007, 1811, 2012])
    counts, edges = of(values, bins=8_296, range=(2, 2280))
    filled = counts > 0
    for x, low, high in zip(values, edges[:-1][filled], edges[1:][filled], strict=True):
        assert low <= x < high


def test_the_last_edge_belongs_to_the_last_bin() -> None:
    values = [0.0, 0, 0, 1, 2, 3, 3, 4, 5]
    assert of(values, bins=30, range=(-0.5, 5))[0][-1] == 1
    check(values, bins=30, range=(-0.5, 5))


@pytest.mark.parametrize("value", [INF, -INF], ids=str)
def test_infinite_values_without_a_range_are_an_error(value: float) -> None:
    with pytest.raises(pl.exceptions.ComputeError, match="`x`"):
        of([0.4] * 10 + [value])
    assert of([0.4] * 10 + [value], range=(0, 1))[0].sum() == 10


@pytest.mark.parametrize("hole", [NAN, None], ids=str)
def test_missing_values_are_not_counted(hole: Any) -> None:
    assert of([0.0, 1.0, hole])[0].sum() == 2
    assert of([hole, hole], pl.Float64, range=(0, 1))[0].sum() == 0
    assert of([0.0, 1.0, hole], bins=[0, 1])[0].tolist() == [2]


def test_equal_values_differ_from_numpy_by_a_wider_range() -> None:
    """Ends that are equal are moved apart by 1 each; NumPy's by a half. The documentation says so."""
    counts, edges = of([3.0, 3.0])
    assert (edges[0], edges[-1]) == (2.0, 4.0)
    assert counts.sum() == 2


def test_values_that_rounding_can_not_tell_apart_are_an_error() -> None:
    with pytest.raises(pl.exceptions.ComputeError, match="`x`"):
        of([1.0, 1.0 + 2.3e-16] * 10, bins=10)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_the_ends_of_signed_integers_do_not_overflow(dtype: str) -> None:
    most = np.iinfo(dtype).max - 3
    counts, edges = of(np.array([-most, most], dtype=dtype), bins=2)
    assert counts.tolist() == [1, 1]
    assert edges[1] == 0


def test_tiny_ranges_of_denormal_numbers_are_counted() -> None:
    check(np.array([-0.9e-308]), bins=2, range=(-1e-308, -2e-313))


def test_a_range_whose_width_overflows_is_an_error_that_names_the_column() -> None:
    with pytest.raises(pl.exceptions.ComputeError, match=r"`x`.*finite width"):
        of([-1e308, 0.0, 1e308], bins=4)
    assert of([-0.8e308, 0.0, 0.8e308], bins=4)[0].tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("range_", [(1.0 + 2**-40, 2.0), (0.0, 1.0 - 2**-40), (1.0 - 2**-40, 2.0)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranges_that_the_column_s_type_rounds_hold_what_numpy_s_hold(dtype: Any, range_: Any) -> None:
    check(np.array([0.5, 1.0, 1.0, 1.5], dtype), bins=3, range=range_)


def test_f32_values_are_all_counted_in_two_dimensions() -> None:
    df = pl.DataFrame(
        {
            "x": pl.Series([276.318359, -69.593948, 21.329449], dtype=pl.Float32),
            "y": pl.Series([5005.689453, 4481.327637, 6010.369629], dtype=pl.Float32),
        }
    )
    assert df.select(tg.histogram2d("x", "y", bins=100)).item().struct["count"].sum() == 3


@pytest.mark.parametrize("kind", ["date", "datetime", "duration"])
def test_dates_count_as_their_numbers(kind: str) -> None:
    offsets = [0, 0, 1, 1, 2, 3, 5, 10, 20]
    make = {
        "date": lambda n: date(1970, 1, 1) + timedelta(days=n),
        "datetime": lambda n: datetime(1970, 1, 1) + timedelta(microseconds=n),
        "duration": lambda n: timedelta(microseconds=n),
    }[kind]
    got = of([make(n) for n in offsets], bins=[make(n) for n in [0, 2, 7, 20]])
    np.testing.assert_array_equal(got[0], np.histogram(offsets, [0, 2, 7, 20])[0])


def test_the_values_are_left_as_they_are() -> None:
    values = np.array([1.3, 2.5, 2.3])
    df = pl.DataFrame({"x": values})
    df.select(tg.histogram("x", bins=100, range=(-10, 10)))
    assert df["x"].to_list() == [1.3, 2.5, 2.3]


# Two dimensions.


def of2(x: Any, y: Any, **params: Any) -> np.ndarray:
    frame = pl.DataFrame({"x": x, "y": y}).select(tg.histogram2d("x", "y", **params)).item().struct.unnest()
    shape = frame["x_lower"].n_unique(), -1
    cells: np.ndarray = frame.to_series(4).to_numpy()
    return cells if len(set(frame["x_lower"])) * len(set(frame["y_lower"])) != len(cells) else cells.reshape(shape)


@pytest.mark.parametrize("bins", [1, 3, (2, 5), (7, 4)], ids=str)
@pytest.mark.parametrize("density", [False, True])
def test_cells_are_those_of_numpy(bins: Any, density: bool) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=400), rng.random(400)
    want, _, _ = np.histogram2d(x, y, bins=bins, density=density)
    np.testing.assert_allclose(of2(x, y, bins=bins, density=density), want, rtol=1e-13)


def test_cells_between_given_edges_are_those_of_numpy() -> None:
    x, y = [-0.5, 0.5, 1.5, 2.5, 0.5], [0.5, 1.5, 2.5, 3.0, 0.1]
    edges = ([-2.0, 0.0, 2.0], [0.0, 1.0, 2.0, 3.0])
    want, _, _ = np.histogram2d(x, y, bins=edges)
    np.testing.assert_array_equal(of2(x, y, bins=edges), want)


def test_weights_of_cells_are_summed() -> None:
    rng = np.random.default_rng(0)
    x, y, w = rng.random(100), rng.random(100), np.full(100, 2.0)
    df = pl.DataFrame({"x": x, "y": y, "w": w})
    got = df.select(tg.histogram2d("x", "y", bins=4, weights="w")).item().struct["weight"].to_numpy()
    np.testing.assert_allclose(got, np.histogram2d(x, y, 4, weights=w)[0].ravel())


def test_equal_samples_fall_into_one_cell() -> None:
    cells = of2([0.0] * 10, [0.0] * 10, bins=2)
    assert cells.sum() == 10
    assert (cells > 0).sum() == 1


def test_no_rows_fill_no_cell() -> None:
    df = pl.DataFrame({"x": [], "y": []}, schema={"x": pl.Float64, "y": pl.Float64})
    frame = df.select(tg.histogram2d("x", "y", bins=2, range=((0, 1), (0, 1)))).item().struct.unnest()
    assert frame["count"].to_list() == [0] * 4


def test_infinite_edges_hold_everything_beyond() -> None:
    x = np.arange(6.0)
    edges = ([-INF, 2.0, INF], [-INF, 3.0, INF])
    want, _, _ = np.histogram2d(x, x, bins=edges)
    np.testing.assert_array_equal(of2(x, x, bins=edges), want)


@pytest.mark.parametrize(("value", "count"), [(1.0, 1), (0.9999999999, 1), (1.0000000001, 0), (1.0001, 0)])
def test_the_rightmost_edges_belong_to_the_last_cells(value: float, count: int) -> None:
    cells = of2([value], [0.5], bins=([0.0, 0.5, 1.0], [0.0, 0.5, 1.0]))
    assert cells.ravel().tolist() == [0, 0, 0, count]


def test_equal_edges_make_a_cell_that_is_empty() -> None:
    x, y = [0.0, 1.0, 2.0], [0.0, 1.0, 2.0]
    edges = ([0.0, 1.0, 1.0, 2.0], [0.0, 2.0])
    frame = pl.DataFrame({"x": x, "y": y}).select(tg.histogram2d("x", "y", bins=edges)).item().struct["count"]
    np.testing.assert_array_equal(frame, np.histogram2d(x, y, bins=edges)[0].ravel())


@pytest.mark.parametrize("high", [True, False])
def test_large_integers_are_compared_without_rounding_them_together(high: bool) -> None:
    """Edges are f64: integers up to 2^53 are told apart."""
    base = 2**52 if high else 2**20
    counts, _ = of(np.array([base, base + 1, base + 2], dtype=np.int64), bins=[base, base + 1, base + 2])
    assert counts.tolist() == [1, 2]


def test_densities_of_cells_of_any_width_are_those_of_numpy() -> None:
    x, y = np.arange(9) % 5, np.arange(9) // 2
    edges = ([0.0, 1.0, 3.0, 6.0], [0.0, 0.5, 5.0])
    want, _, _ = np.histogram2d(x, y, bins=edges, density=True)
    np.testing.assert_allclose(of2(x, y, bins=edges, density=True), want, rtol=1e-14)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Float32, pl.Float64, pl.Date], ids=str)
def test_min_max_are_those_of_the_column_in_its_type(dtype: Any) -> None:
    df = pl.DataFrame({"x": pl.Series([5, 3, None, 9, 7]).cast(dtype)})
    got = df.select(tg.min_max("x")).item()
    assert got == {"min": df["x"].min(), "max": df["x"].max()}


# Borders and bins.

METHODS = ["quantile", "uniform", "greedy_logsum", "min_max_entropy"]
methods = pytest.mark.parametrize("method", METHODS)


def borders(values: Any, bins: int = 255, **params: Any) -> list[float]:
    found: list[float] = pl.DataFrame({"x": values}).select(tg.borders("x", bins, **params)).item().to_list()
    return found


@methods
@pytest.mark.parametrize(("distinct", "bins"), [(2, 2), (2, 255), (10, 10), (10, 255), (255, 255)])
@pytest.mark.parametrize("multiple", [1, 5])
def test_values_that_fit_are_all_kept_apart(method: Any, distinct: int, bins: int, multiple: int) -> None:
    if method == "uniform" and bins < distinct:
        return
    values = np.random.default_rng(0).permutation(np.repeat(np.arange(distinct) * 1.0, multiple))
    found = borders(values, bins, method=method)
    assert found == [i + 0.5 for i in range(distinct - 1)]


@methods
@pytest.mark.parametrize("bins", [2, 3, 17, 255])
def test_no_more_bins_than_asked_and_borders_within_the_values(method: Any, bins: int) -> None:
    values = np.random.default_rng(1).normal(size=2_000)
    found = borders(values, bins, method=method)
    assert 1 <= len(found) < bins
    assert found == sorted(set(found))
    assert values.min() <= found[0]
    assert found[-1] < values.max()


def test_quantile_borders_fill_bins_evenly() -> None:
    values = np.random.default_rng(2).exponential(size=20_000)
    codes = pl.DataFrame({"x": values}).select(tg.quantize("x", 100, method="quantile")).to_series()
    counts = codes.value_counts()["count"]
    assert len(counts) == 100
    assert counts.min() > 180
    assert counts.max() < 220


def test_uniform_borders_are_evenly_spaced() -> None:
    values = np.random.default_rng(3).normal(size=5_000)
    found = borders(values, 21, method="uniform")
    np.testing.assert_allclose(np.diff(found), (values.max() - values.min()) / 21, rtol=0.05)


@methods
def test_bins_of_bins_are_the_same_bins(method: Any) -> None:
    """Values that are codes already keep their order and are as many."""
    values = pl.DataFrame({"x": np.random.default_rng(4).normal(size=3_000)})
    once = values.select(tg.quantize("x", 31, method=method)).to_series()
    twice = pl.DataFrame({"x": once}).select(tg.quantize("x", 255, method=method)).to_series()
    assert twice.rank("dense").to_list() == once.rank("dense").to_list()


@methods
def test_repeating_every_value_moves_no_border_of_few_distinct_ones(method: Any) -> None:
    values = np.random.default_rng(5).integers(0, 40, 200).astype(float)
    assert borders(values, 255, method=method) == borders(np.repeat(values, 3), 255, method=method)


@methods
@pytest.mark.parametrize("scale", [1e-20, 3.0, 1e20])
@pytest.mark.parametrize("offset", [0.0, 7.0])
def test_small_integers_at_any_scale_are_told_apart(method: Any, scale: float, offset: float) -> None:
    values = (np.arange(12) + offset) * scale
    codes = pl.DataFrame({"x": values}).select(tg.quantize("x", method=method)).to_series()
    assert codes.to_list() == list(range(12))


@methods
@pytest.mark.parametrize("hole", [None, NAN], ids=str)
def test_missing_values_take_no_part_in_borders_and_have_no_bin(method: Any, hole: Any) -> None:
    values = [1.0, hole, 2.0, hole, 3.0]
    assert borders(values, method=method) == [1.5, 2.5]
    codes = pl.DataFrame({"x": values}).select(tg.quantize("x", method=method)).to_series()
    assert codes.to_list() == [0, None, 1, None, 2]


@pytest.mark.parametrize("method", ["quantile", "greedy_logsum", "min_max_entropy"])
def test_infinite_values_have_bins_of_their_own(method: Any) -> None:
    values = [-INF, 0.0, 1.0, INF]
    codes = pl.DataFrame({"x": values}).select(tg.quantize("x", method=method)).to_series()
    assert codes.to_list() == [0, 1, 2, 3]
    # A border of -inf has -inf itself below it and every number above; one at 1 has 1 below and inf above.
    assert borders(values, method=method) == [-INF, 0.5, 1.0]


@methods
def test_a_constant_column_has_no_border(method: Any) -> None:
    assert borders([2.5] * 9, method=method) == []
    assert pl.DataFrame({"x": [2.5] * 3}).select(tg.quantize("x", method=method)).to_series().to_list() == [0] * 3


@methods
def test_a_sample_is_drawn_by_its_seed_and_comes_near_to_the_whole(method: Any) -> None:
    values = np.random.default_rng(6).normal(size=20_000)
    a, b, c = (borders(values, 10, method=method, sample=2_000, seed=s) for s in (0, 0, 1))
    assert a == b
    assert a != c
    whole = borders(values, 10, method=method)
    if method == "quantile":
        np.testing.assert_allclose(a, whole, atol=0.2)


@methods
def test_no_rows_have_no_bins(method: Any) -> None:
    df = pl.DataFrame({"x": []}, schema={"x": pl.Float64})
    assert df.select(tg.borders("x", method=method)).item().to_list() == []
    assert df.select(tg.quantize("x", method=method)).to_series().to_list() == []


@pytest.mark.parametrize("bins", [2, 256, 257, 5_000])
def test_codes_are_of_the_smallest_type_that_holds_them(bins: int) -> None:
    df = pl.DataFrame({"x": np.random.default_rng(7).normal(size=10_000)})
    codes = df.select(tg.quantize("x", bins)).to_series()
    assert codes.dtype == (pl.UInt8 if bins <= 256 else pl.UInt16)
    assert codes.max() == bins - 1


@pytest.mark.parametrize("bins", [1, 65_536])
def test_borders_out_of_range_are_an_error(bins: int) -> None:
    with pytest.raises(ValueError, match="bins"):
        borders([1.0, 2.0], bins)
