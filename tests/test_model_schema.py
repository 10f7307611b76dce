"""What `Model.to_json` writes is what `docs/model.schema.json` says, field by field."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import catboost
import jsonschema_rs
import polars as pl
import polars_taiga as tg

from tests.golden.cases import all_cases, table

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "model.schema.json").read_text())
KINDS = (b"TAIGA\0GB", b"TAIGA\0RF", b"TAIGA\0LR")
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)


@cache
def of_format(name: str) -> jsonschema_rs.Draft202012Validator:
    """What the schema says of models of one format."""
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def faults(text: str) -> list[str]:
    """What the schema of the text's own format has against it."""
    told = json.loads(text)
    errors = of_format(told["format"].removeprefix("polars-taiga ")).iter_errors(told)
    return [f"{'/'.join(map(str, error.instance_path))}: {error.message[:200]}" for error in errors]


def test_the_schema_is_one() -> None:
    jsonschema_rs.meta.validate(SCHEMA)


def test_kept_fits_are_as_the_schema_says() -> None:
    """Every learner, policy, loss, sampler and categorical method."""
    fitted = {name: fit() for name, fit in all_cases().items()}
    models = {name: tg.Model(data) for name, data in fitted.items() if data.startswith(KINDS)}
    assert len(models) > 400
    assert {name: found for name, model in models.items() if (found := faults(model.to_json()))} == {}


def imported() -> tg.Model:
    """A model of another library that finds statistics of combinations by hashes."""
    df = table(400).select("a", "city", "color").drop_nulls()
    y = df["city"].str.slice(4).cast(int) % 3 + df["color"].str.len_bytes() % 2 * (df["a"] > 0.5)
    params = {"iterations": 8, "verbose": 0, "allow_writing_files": False, "one_hot_max_size": 4}
    rows = catboost.Pool(df.to_pandas(), y.to_numpy(), cat_features=["city", "color"])
    model = tg.import_model(catboost.CatBoost(params).fit(rows), categories={"city": df["city"].unique().to_list()})
    assert all(word in model.to_json() for word in ('"hashed"', '"category_of"', '"missing"', '"null"'))
    return model


def some() -> dict[str, tg.Model]:
    """Models with what kept fits have not: receipts, metadata, structs, several curves, values out of bag."""
    df = table(400).with_row_index("key")
    enum = df.with_columns(pl.col("text").cast(pl.Enum(["low", "mid", "high"])))
    person = df.select("number", "held", pl.struct("a", "b").alias("person"), (pl.col("c") * 2).alias("twice"))
    own = tg.metric(lambda y, p: (y - p).abs())
    return {
        "receipt": df.taiga.fit_gbdt("number", "a", "city", rounds=3, row_key="key").with_metadata({"who": ["me", 1]}),
        "enum": enum.taiga.fit_gbdt("text", "a", rounds=2),
        "struct": person.taiga.fit_gbdt("number", pl.col("person").struct.field("a"), "twice", rounds=2),
        "curves": df.taiga.fit_gbdt("number", "a", rounds=3, eval="held", metric=["rmse", "mae", own]),
        "forest": df.taiga.fit_forest("binary", "a", "city", trees=3, oob=True, permutation_importance=True),
        "words": df.select("binary", w=pl.concat_list("color", "city")).taiga.fit_sparse_lr(
            "binary", "w", hash_bits=10
        ),
        "imported": imported(),
    }


def test_models_of_everything_else_are_too() -> None:
    for name, model in some().items():
        text = model.to_json()
        assert faults(text) == [], name
        assert VALIDATOR.is_valid(json.loads(text)), name
        assert tg.Model.from_json(text) == model, name


def fields(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of fields of objects that the schema knows, one item of a list standing for all."""
    if isinstance(value, list):
        return [found for i, item in enumerate(value[:2]) for found in fields(item, (*path, i))]
    if not isinstance(value, dict) or path[-1:] in {("params",), ("metadata",), ("metric",)}:
        return []
    return [found for key in value for found in [(*path, key), *fields(value[key], (*path, key))]]


def test_the_schema_knows_every_field() -> None:
    """A field under another name is one that the schema does not know, wherever it stands."""
    for name, model in some().items():
        told = json.loads(model.to_json())
        for *path, key in fields(told):
            renamed = copy.deepcopy(told)
            holder = renamed
            for step in path:
                holder = holder[step]
            holder[f"{key}x"] = holder.pop(key)
            if path or key != "format":
                assert faults(json.dumps(renamed)), (name, path, key)
