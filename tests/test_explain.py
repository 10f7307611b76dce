"""`Model.explain`: one row's way, held against `tg.predict`'s Shapley values and predictions."""

from __future__ import annotations

import math

import polars as pl
import polars_taiga as tg
import pytest

FEATURES = list("abcd")


@pytest.mark.parametrize("name", ["regression", "binary", "multiclass", "forest", "linear"])
def test_the_numbers_are_those_of_predict(df: pl.DataFrame, name: str, request: pytest.FixtureRequest) -> None:
    data = df.with_columns(pl.col(FEATURES).fill_nan(0).fill_null(0)) if name == "linear" else df
    fits = {
        "forest": lambda: data.taiga.fit_forest("kind", FEATURES, trees=5),
        "linear": lambda: data.taiga.fit_sparse_lr("kind", dense=FEATURES),
    }
    model: tg.Model = fits[name]() if name in fits else request.getfixturevalue(name)
    for at in (0, 7):
        row = data[at]
        shap = model.predict(row, output="shap").struct.unnest().row(0, named=True)
        auto = model.predict(row).item()
        found = model.explain(row)
        if isinstance(auto, dict):
            likeliest = max(auto, key=auto.__getitem__)
            assert found.label == likeliest
            shap, auto = shap[likeliest], auto[likeliest]
        contributions = dict(found.contributions.select("feature", "contribution").iter_rows())
        assert {**contributions, "base_value": found.base_value} == shap
        assert found.contributions["contribution"].abs().is_sorted(descending=True)
        assert found.prediction == auto
        assert math.isclose(found.score, sum(shap.values()), rel_tol=1e-12, abs_tol=1e-12)
        if model.classes is None:
            assert math.isclose(found.score, found.prediction, rel_tol=1e-12)


def test_a_class_that_is_asked_for(df: pl.DataFrame, multiclass: tg.Model) -> None:
    names = multiclass.predict(df[:1]).struct.fields
    for name in names:
        assert multiclass.explain(df[0], label=name).label == name
    with pytest.raises(ValueError, match="parameter `label`: 'none' is not one of the classes"):
        multiclass.explain(df[0], label="none")


def test_what_it_prints() -> None:
    df = pl.DataFrame({"x": range(100), "text": ["a", "b"] * 50}).with_columns(y=pl.col("x") >= 50)
    model = df.taiga.fit_gbdt("y", "x", "text", rounds=20)
    lines = repr(model.explain({"x": 80, "text": "b"})).splitlines()
    assert lines[0] == "log odds of y = true"
    assert lines[1].split()[:2] == ["base", "value"]
    assert lines[2].split()[:3] == ["x", "=", "80"]
    assert lines[3].split()[:3] == ["text", "=", "b"]
    assert lines[4].split()[0] == "result"
    assert lines[5].startswith("  probability of y = true  ")
    assert 0.5 < float(lines[5].split()[-1]) < 1
    assert len({len(line) for line in lines[1:]}) == 1
    many = pl.DataFrame({f"f{i}": [float(i * j % 7) for j in range(60)] for i in range(20)}).with_columns(
        y=pl.col("f3")
    )
    assert "  5 others " in repr(many.taiga.fit_gbdt("y", pl.exclude("y"), rounds=3).explain(many[0]))


def test_a_background_and_a_lazy_row(df: pl.DataFrame, regression: tg.Model) -> None:
    background = df.head(20)
    found = regression.explain(df.lazy().slice(3, 1), background=background)
    row = df[3].select(tg.predict(regression, output="shap", background=background)).to_series()
    assert found.base_value == row.struct.field("base_value").item()


def test_bad_rows(df: pl.DataFrame, regression: tg.Model) -> None:
    for rows in (df, df.head(0)):
        with pytest.raises(ValueError, match=r"parameter `row`: .* rows; one is explained"):
            regression.explain(rows)
    with pytest.raises(TypeError, match="parameter `row`: a DataFrame of one row"):
        regression.explain([1, 2, 3, 4])  # type: ignore[arg-type]
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="b"):
        regression.explain(df[0].drop("b"))
    with pytest.raises(ValueError, match="parameter `label`: it chooses between more than two classes"):
        regression.explain(df[0], label=1)
