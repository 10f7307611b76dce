"""Models from JSON: equal to those that wrote it; whatever else stands in a text is an error."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest

FEATURES = list("abcd")


@pytest.fixture(scope="module")
def models(df: pl.DataFrame) -> dict[str, tg.Model]:
    """Every learner, policy and way of categories; every kind of category and label."""
    row = pl.int_range(pl.len())
    table = df.with_columns(
        city=pl.when(row % 13 > 0).then(pl.concat_str(pl.lit("ü\n"), (row * 7919 % 23).cast(pl.String))),
        zip=pl.when(row % 11 > 0).then(row * 31 % 17 - 8),
        ok=pl.when(row % 3 > 0).then(row % 2 == 0),
        when=pl.from_epoch(row * 3600, time_unit="s"),
        decimal=(row % 3).cast(pl.Int8),
        clean=pl.col("a").fill_nan(0).fill_null(0),
        text=pl.concat_list(pl.lit("w") + (row % 5).cast(pl.String), pl.lit("v") + (row % 7).cast(pl.String)),
    )
    columns = [*FEATURES, "city", "zip", "ok", "when"]
    cats = {"categorical": ["zip", "ok"]}
    fit, forest = table.taiga.fit_gbdt, table.taiga.fit_forest
    grow = table.with_columns(pl.col("city").cast(pl.Categorical)).taiga.fit_forest
    assert forest is not None
    return {
        "symmetric": fit("y", columns, rounds=4, eval="held", metric="mae", **cats),
        "depthwise": fit("kind", columns, rounds=3, policy="depthwise", max_combination=2, **cats),
        "leafwise": fit("flag", columns, rounds=3, policy="leafwise", cat_method="partition", positive=False, **cats),
        "one_hot": fit("decimal", columns, rounds=2, loss="multiclass", cat_method="one_hot", **cats),
        "computed": fit("y", pl.col("a") * 2, "b", rounds=2, metadata={"a": [1, 2.5, "é"], "b": None}),
        "tiny": fit((pl.col("y") * 1e-40).alias("y"), FEATURES, rounds=2),
        "huge": fit((pl.col("y") * 1e100).alias("y"), FEATURES, rounds=2),
        "forest": grow("kind", columns, trees=4, permutation_importance=True, **cats),
        "weights": grow("y", columns, trees=4, weight="w", **cats),
        "exact": forest("flag", FEATURES, trees=3, splitter="exact", weight=pl.col("w") / 7),
        "linear": table.taiga.fit_sparse_lr("kind", "text", dense=["clean", "w"], eval="held", hash_bits=8),
        "numbers": table.with_columns(i=pl.concat_list(row % 5, row % 7 + 5)).taiga.fit_sparse_lr("flag", "i"),
    }


def test_what_was_written_is_read(models: dict[str, tg.Model]) -> None:
    for name, model in models.items():
        text = model.to_json()
        again = tg.Model.from_json(text)
        assert again == model, name
        assert again.to_json() == text, name
        assert tg.Model.from_json(again.to_json()) == again, name
        # The order of fields and white space do not matter.
        assert tg.Model.from_json(json.dumps(json.loads(text), indent=1, sort_keys=True)) == again, name


@pytest.mark.parametrize("learner", ["fit_gbdt", "fit_forest"])
def test_bins_are_kept_as_borders_and_told_as_bins(learner: str, df: pl.DataFrame) -> None:
    """Models written before `bins` counted bins keep their meaning: what is kept is the largest number of borders."""
    fit = getattr(df.taiga, learner)
    few = {"rounds" if learner == "fit_gbdt" else "trees": 2}
    plain = fit("y", FEATURES, **few)
    assert plain == fit("y", FEATURES, **few, bins=255)
    for bins in (2, 17, 256):
        model = fit("y", FEATURES, **few, bins=bins)
        data = json.loads(model.to_json())
        assert (data["params"]["bins"], model.params["bins"]) == (bins - 1, bins)
        assert tg.Model.from_bytes(model.to_bytes()).params["bins"] == bins
        assert all(len(borders) < bins for borders in model.borders.values()) or learner == "fit_forest"
    for broken in (0, 256):
        data["params"]["bins"] = broken
        with pytest.raises(ValueError, match="`bins`"):
            tg.Model.from_json(json.dumps(data))


def test_rounds_are_kept_under_the_name_that_they_had(models: dict[str, tg.Model]) -> None:
    """Models written when they were called `trees` are read, and keep their bytes; both names at once are an error."""
    model = models["symmetric"]
    data = json.loads(model.to_json())
    assert (data["params"]["trees"], model.params["rounds"], "trees" in model.params) == (4, 4, False)
    assert (models["forest"].params["trees"], "rounds" in models["forest"].params) == (4, False)
    data["params"]["rounds"] = 4
    with pytest.raises(ValueError, match="`trees`"):
        tg.Model.from_json(json.dumps(data))


def test_gains_beyond_f64_are_not_told(df: pl.DataFrame) -> None:
    model = df.taiga.fit_gbdt((pl.col("y") * 1e200).alias("y"), FEATURES, rounds=2)
    again = tg.Model.from_json(model.to_json())
    assert again != model
    assert df.select(tg.predict(again)).equals(df.select(tg.predict(model)))


def test_an_edited_model(models: dict[str, tg.Model], df: pl.DataFrame) -> None:
    data = json.loads(models["tiny"].to_json())
    data["start"] = [5.0]
    shifted = tg.Model.from_json(json.dumps(data))
    assert shifted != models["tiny"]
    assert (shifted.predict(df) - 5).abs().max() < 1e-6


def _broken(data: Any, path: list[Any], value: Any) -> str:
    """The text with one value in another's place."""
    at = data = json.loads(json.dumps(data))
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(data)


def test_hostile_texts_are_errors(models: dict[str, tg.Model]) -> None:
    for text in [
        "",
        "[]",
        "{}",
        "null",
        "1",
        "[" * 10_000,
        '{"format": "polars-taiga gbdt"}',
        '{"format": "x", "version": 1}',
    ]:
        with pytest.raises(ValueError, match=r"^model: "):
            tg.Model.from_json(text)
    with pytest.raises(TypeError, match="not bytes"):
        tg.Model.from_json(b"{}")  # type: ignore[arg-type]
    gbdt, forest = json.loads(models["depthwise"].to_json()), json.loads(models["forest"].to_json())
    linear = json.loads(models["linear"].to_json())
    node = next(i for i, n in enumerate(forest["trees"][0]["nodes"]) if "border" in n)
    cases: list[tuple[Any, list[Any], Any]] = [
        (gbdt, ["version"], 99),
        (gbdt, ["loss"], "none"),
        (gbdt, ["labels"], [1, "a", True]),
        (gbdt, ["labels"], ["low", "low", "mid"]),
        (gbdt, ["start"], [0.0]),
        (gbdt, ["scale"], 3.0),
        (gbdt, ["more"], 1),
        (gbdt, ["features", 0, "type"], "complex"),
        (gbdt, ["features", 0, "borders"], [2.0, 1.0]),
        (gbdt, ["trees", 0, "kind"], "symmetric"),
        (gbdt, ["trees", 0, "round"], 7),
        (gbdt, ["trees", 0, "nodes", 0, "border"], 0.123456789),
        (gbdt, ["trees", 0, "nodes", 0, "feature"], 4_000_000_000),
        (gbdt, ["trees", 0, "nodes", 0, "left"], {"node": 0}),
        (gbdt, ["trees", 0, "leaves", 0, "value"], "nan"),
        (gbdt, ["trees", 0, "leaves", 0, "count"], -1),
        (gbdt, ["trees", 0, "leaves", 0, "weight"], None),
        (gbdt, ["params", "depth"], 1000),
        (gbdt, ["params", "none"], 1),
        (gbdt, ["metadata"], [1]),
        (gbdt, ["computed"], ["nobody"]),
        (forest, ["trees"], []),
        (forest, ["trees", 0, "nodes", node, "border"], 0.123456789),
        (forest, ["trees", 0, "nodes", node, "others"], "left"),
        (forest, ["trees", 0, "leaves", 0, "sums"], [0, 0, 0]),
        (forest, ["trees", 0, "leaves", 0, "sums"], [1]),
        (forest, ["oob", "predictions"], [[0.5]]),
        (linear, ["coefficients", 0, "class"], 9),
        (linear, ["coefficients", 0, "feature"], "nobody"),
        (linear, ["coefficients", 0, "feature"], 1 << 40),
        (linear, ["coefficients", 1], linear["coefficients"][0]),
        (linear, ["sparse", "count"], 3),
        (linear, ["intercepts"], []),
    ]
    for data, path, value in cases:
        with pytest.raises(ValueError, match=r"^model: ") as error:
            tg.Model.from_json(_broken(data, path, value))
        assert len(str(error.value)) < 500, path
