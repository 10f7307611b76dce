"""Models of CatBoost with statistics of categories and of combinations predict here what they predict there."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import catboost
import numpy as np
import polars as pl
import polars_taiga as tg
import pytest

ROWS = 300
NAMES = ["x", "number", "z", "text", "few", "flag"]
CATEGORIES = NAMES[1:2] + NAMES[3:]


def table(seed: int) -> tuple[pl.DataFrame, dict[str, np.ndarray]]:
    """Two columns of numbers, one with missing values, and of categories integers, text of any length, and few."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=ROWS), np.exp(rng.normal(size=ROWS))
    x[rng.random(ROWS) < 0.1] = np.nan
    number, text, few = rng.integers(-3, 6, ROWS), rng.integers(0, 12, ROWS), rng.integers(0, 3, ROWS)
    flag = rng.random(ROWS) < 0.4
    frame = pl.DataFrame(
        {
            "x": x,
            "number": number,
            "z": z,
            "text": [f"k{t}" + "é" * (t % 2) + "x" * (7 * t) for t in text],
            "few": [["low", "mid", ""][f] for f in few],
            "flag": flag,
        }
    )
    score = (number % 3) * (text % 4) / 3 + few * (np.nan_to_num(x) > 0) + flag * (z > 1) + rng.normal(size=ROWS) / 3
    targets = {
        "number": score,
        "positive": np.exp(score / 4),
        "two": (score > np.median(score)).astype(int),
        "share": np.clip((score - score.min()) / np.ptp(score), 0, 1),
        "three": np.digitize(score, np.quantile(score, [0.3, 0.7])),
    }
    return frame, targets


def others(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The rows themselves; known categories in other combinations; unknown ones; missing numbers."""
    rng = np.random.default_rng(seed)
    mixed = frame.select(pl.Series(c, frame[c].to_numpy()[rng.permutation(ROWS)]) for c in frame.columns)
    edge = frame.with_columns(
        pl.when(pl.int_range(ROWS) % 2 == 0).then(float("nan")).otherwise("x").alias("x"),
        pl.when(pl.int_range(ROWS) % 3 == 0).then(10**12).otherwise("number").alias("number"),
        pl.when(pl.int_range(ROWS) % 5 == 0).then(pl.lit("unknown")).otherwise("text").alias("text"),
        pl.when(pl.int_range(ROWS) % 7 == 0).then(pl.lit("none of them")).otherwise("few").alias("few"),
    )
    return pl.concat([frame, mixed.cast(dict(frame.schema)), edge])


def peer(frame: pl.DataFrame) -> Any:
    """The table as CatBoost takes it."""
    return frame.to_pandas()


def fitted(frame: pl.DataFrame, y: np.ndarray, **params: Any) -> Any:
    common = {"iterations": 12, "depth": 5, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    common |= {"learning_rate": 0.4, "max_ctr_complexity": 4}
    return catboost.CatBoost({**common, **params}).fit(catboost.Pool(peer(frame), y, cat_features=CATEGORIES))


def saved(booster: Any, folder: Path, form: str, pool: Any = None) -> bytes:
    path = folder / f"model.{form}"
    booster.save_model(str(path), format=form, pool=pool)
    return path.read_bytes()


def told(frame: pl.DataFrame) -> dict[str, list[Any]]:
    """The categories of each column."""
    plain = frame.with_columns(pl.col("flag").cast(pl.Int8))
    return {c: plain[c].unique().to_list() for c in CATEGORIES}


def raw(model: tg.Model, rows: pl.DataFrame, **more: Any) -> np.ndarray:
    found = model.predict(rows, **{"output": "raw", **more})
    return found.struct.unnest().to_numpy() if found.dtype == pl.Struct else found.to_numpy()


def assert_equal(found: np.ndarray, wanted: np.ndarray, within: float = 1e-12) -> None:
    wanted = np.asarray(wanted, np.float64).reshape(found.shape)
    off = np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))
    assert off.max() <= within, (off.max(), np.argmax(off), found.shape)


def combined(model: tg.Model) -> list[dict[str, Any]]:
    """What the model finds by hashes of several parts."""
    return [d for d in json.loads(model.to_json())["derived"] if d["kind"] == "hashed" and len(d["parts"]) > 1]


LOSSES = [
    ("number", "RMSE"),
    ("number", "MAE"),
    ("number", "RMSEWithUncertainty"),
    ("positive", "Poisson"),
    ("positive", "Tweedie:variance_power=1.5"),
    ("two", "Logloss"),
    ("share", "CrossEntropy"),
    ("three", "MultiClass"),
    ("three", "MultiClassOneVsAll"),
]
STATISTICS = [
    {},
    {"ctr": "Borders:TargetBorderCount=3:Prior=0/1:Prior=0.7/1"},
    {"ctr": "Buckets:TargetBorderCount=2:CtrBorderCount=200"},
    {"ctr": "BinarizedTargetMeanValue:TargetBorderCount=4:Prior=0.3/1"},
    {"ctr": "Counter"},
    {"ctr": "Borders", "counter_calc_method": "Full", "one_hot_max_size": 3, "nan_mode": "Max"},
]
SEEDS = [1, 2]


@pytest.mark.parametrize(("target", "loss"), LOSSES)
@pytest.mark.parametrize("statistics", STATISTICS, ids=lambda s: s.get("ctr", "default"))
def test_combinations(target: str, loss: str, statistics: dict[str, Any], tmp_path: Path) -> None:
    """Proves it for losses and kinds of statistics, of an object, cbm and JSON, whatever is told of categories."""
    found = 0
    for seed in SEEDS:
        frame, targets = table(seed)
        params = {k: v for k, v in statistics.items() if k != "ctr"}
        if "ctr" in statistics:
            ctr = statistics["ctr"]
            if loss not in ("RMSE", "MAE", "Poisson"):
                # CatBoost makes classes of these targets itself.
                ctr = ":".join(part for part in ctr.split(":") if not part.startswith("TargetBorderCount"))
            params |= {"simple_ctr": [ctr], "combinations_ctr": [ctr]}
        booster = fitted(frame, targets[target], loss_function=loss, random_seed=seed, **params)
        rows = others(frame, seed)
        wanted = booster.predict(peer(rows), prediction_type="RawFormulaVal")
        model = tg.import_model(booster)
        found += len(combined(model))
        assert_equal(raw(model, rows), wanted)
        known = told(frame)
        files = [
            tg.import_model(saved(booster, tmp_path, "cbm")),
            tg.import_model(saved(booster, tmp_path, "json")),
            tg.import_model(saved(booster, tmp_path, "json", catboost.Pool(peer(frame), cat_features=CATEGORIES))),
            tg.import_model(booster, categories=known),
            tg.import_model(booster, categories={"text": ["k0", "unknown"]}),
        ]
        rows = rows.with_columns(pl.col("flag").cast(pl.Int8))
        for other in files:
            assert raw(other, rows).tobytes() == raw(model, rows).tobytes()
    assert found > 0


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise", "Lossguide"])
def test_shapes(policy: str) -> None:
    """Proves it for trees of every shape, of which those that are not symmetric have statistics of single columns."""
    for seed, (target, loss) in itertools.product(SEEDS, [("number", "RMSE"), ("three", "MultiClass")]):
        frame, targets = table(seed)
        booster = fitted(frame, targets[target], loss_function=loss, grow_policy=policy, has_time=seed == 1)
        rows = others(frame, seed)
        model = tg.import_model(booster)
        assert "hashed" in model.to_json()
        assert_equal(raw(model, rows), booster.predict(peer(rows), prediction_type="RawFormulaVal"))


def test_numbers_at_borders_are_parts_as_in_the_library() -> None:
    """Proves that numbers on the borders that combinations ask about, and beside, count as they do there."""
    frame, _ = table(5)
    x, z, number, flag = (frame[c].to_numpy() for c in ("x", "z", "number", "flag"))
    y = 3 * (x > 0.3) * (number % 3) + 2 * (z > 1) * (number % 2) + flag * (number % 4)
    for nan_mode in ("Min", "Max"):
        booster = fitted(frame, y, nan_mode=nan_mode, iterations=40, one_hot_max_size=3)
        model = tg.import_model(booster)
        parts = [part for d in combined(model) for part in d["parts"] if "border" in part]
        asked = {(p["feature"], p["border"]) for p in parts if p["feature"] < len(NAMES)}
        assert {feature for feature, _ in asked} == {0, 2}
        assert any(p["feature"] >= len(NAMES) for p in parts)
        for feature, border in asked:
            at = np.array([border, np.nextafter(border, np.inf), np.nextafter(border, -np.inf), np.nan])
            rows = pl.concat([frame.with_columns(pl.lit(v).alias(NAMES[feature])) for v in at])
            assert_equal(raw(model, rows), booster.predict(peer(rows)))


def test_categories_of_every_type() -> None:
    """Proves that text, integers and Booleans are categories by their text, and null an unknown one."""
    frame, targets = table(3)
    booster = fitted(frame, targets["two"], loss_function="Logloss", iterations=30)
    model = tg.import_model(booster)
    wanted = raw(model, frame)
    assert_equal(wanted, booster.predict(peer(frame), prediction_type="RawFormulaVal"))
    levels = pl.Enum(frame["few"].unique().sort())
    as_text = pl.col("number").cast(pl.String), pl.col("flag").cast(pl.Int64).cast(pl.String)
    for other in (
        frame.with_columns(*as_text),
        frame.with_columns(pl.col("number").cast(pl.Int8), pl.col("flag").cast(pl.UInt32)),
        frame.with_columns(pl.col("number").cast(pl.Int128), pl.col("few").cast(levels)),
        frame.with_columns(pl.col("text").cast(pl.Categorical), pl.col("few").cast(pl.Categorical)),
        pl.concat([frame[:7], frame[7:150], frame[150:]], rechunk=False),
    ):
        assert raw(model, other).tobytes() == wanted.tobytes()
        streamed = other.lazy().select(tg.predict(model, output="raw")).collect(engine="streaming").to_series()
        assert streamed.to_numpy().tobytes() == wanted.tobytes()
    nulls = frame.with_columns(pl.lit(None, pl.String).alias("text"), pl.lit(None, pl.Int64).alias("number"))
    unknown = frame.with_columns(pl.lit("never seen").alias("text"), pl.lit(10**9).alias("number"))
    assert raw(model, nulls).tobytes() == raw(model, unknown).tobytes()
    assert_equal(raw(model, unknown), booster.predict(peer(unknown), prediction_type="RawFormulaVal"))
    with pytest.raises(pl.exceptions.PolarsError, match=r"`number`.*f64.*text, integers or Booleans"):
        model.predict(frame.with_columns(pl.col("number").cast(pl.Float64)))


def test_they_are_models_as_any_other(tmp_path: Path) -> None:
    """Proves that one keeps its bytes and JSON, explains, is drawn and looked at, and says what it can't be."""
    frame, targets = table(4)
    booster = fitted(frame, targets["number"])
    model = tg.import_model(booster, categories={"few": ["low", "mid", ""]}, target="y")
    assert_equal(raw(model, frame), booster.predict(peer(frame)))
    assert tg.Model.from_bytes(model.to_bytes()) == model
    text = model.to_json()
    assert json.loads(text)["version"] == 16
    assert tg.Model.from_json(text).to_bytes() == model.to_bytes()
    model.save(tmp_path / "own.taiga")
    assert tg.Model.load(tmp_path / "own.taiga") == model
    shap = model.predict(frame, output="shap").struct.unnest()
    assert_equal(shap.to_numpy().sum(axis=1), raw(model, frame), 1e-9)
    staged = model.predict(frame, output="staged").to_list()
    leaves = model.predict(frame, output="leaf").to_list()
    head = model.head(3)
    assert tg.Model.from_bytes(head.to_bytes()) == head
    assert_equal(raw(head, frame), booster.predict(peer(frame), ntree_end=3))
    assert_equal(np.array([row[2] for row in staged]), raw(head, frame), 0)
    assert_equal(raw(model, frame, rounds=3), raw(head, frame), 0)
    assert [row[:3] for row in leaves] == head.predict(frame, output="leaf").to_list()
    theirs = booster.calc_leaf_indexes(catboost.Pool(peer(frame), cat_features=CATEGORIES))
    depth = [tree["splits"].__len__() for tree in json.loads(text)["trees"]]
    for t, levels in enumerate(depth):
        # The last split of theirs is the first bit of ours.
        own = np.array([row[t] for row in leaves])
        turned = sum(((theirs[:, t] >> bit) & 1) << (levels - 1 - bit) for bit in range(levels))
        assert (own == theirs[:, t]).all() or (own == turned).all()
    assert set(model.importance("split").filter(pl.col("importance") > 0)["feature"]) <= set(NAMES)
    nodes = tg.scan_model(model).collect()
    names = " ".join(nodes["feature"].drop_nulls().to_list())
    assert "statistic(" in names
    assert "x > " in names
    assert len(model.partial_dependence(frame, "few")) == 3
    with pytest.raises(pl.exceptions.PolarsError, match="`few` together with"):
        model.partial_dependence(None, "few")
    writers: list[Any] = [
        model.to_onnx,
        model.to_treelite,
        model.to_xgboost,
        model.to_lightgbm,
        lambda: model.to_sql("duckdb", "t"),
    ]
    for write in writers:
        with pytest.raises(ValueError, match="by a hash of their text"):
            write()
    with pytest.raises(pl.exceptions.PolarsError, match="init_model"):
        frame.with_columns(y=targets["number"]).select(
            tg.fit_gbdt("y", NAMES, init_model=model, rounds=2, loss="rmse", categorical=CATEGORIES)
        )


def test_renamed_columns_have_their_categories() -> None:
    """Proves that names and categories that are told together belong together."""
    frame, targets = table(6)
    booster = fitted(frame, targets["number"], max_ctr_complexity=1)
    names = [f"{name}_2" for name in NAMES]
    known = {f"{column}_2": own for column, own in told(frame).items()}
    model = tg.import_model(booster, features=names, categories=known)
    assert "hashed" not in model.to_json()
    rows = others(frame, 6).rename(dict(zip(NAMES, names, strict=True)))
    rows = rows.with_columns(pl.col("flag_2").cast(pl.Int8))
    assert_equal(raw(model, rows), booster.predict(peer(others(frame, 6))))


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    """Proves that a file cut or changed anywhere is an error or a valid model, never a panic."""
    frame, targets = table(7)
    rng = np.random.default_rng(0)
    booster = fitted(frame, targets["number"], iterations=6, depth=4)
    few = [saved(booster, tmp_path, "cbm"), saved(booster, tmp_path, "json")]
    assert combined(tg.import_model(few[0]))
    faults: list[str] = []
    for file in few:
        tried = [file[:n] for n in rng.integers(0, len(file), 200)]
        for _ in range(800):
            changed = bytearray(file)
            for at in rng.integers(0, len(file), rng.integers(1, 4)):
                changed[at] = rng.choice([rng.integers(0, 256), ord("9"), ord("-"), 0xFF, 0])
            tried.append(bytes(changed))
        for data in tried:
            try:
                model = tg.import_model(data)
            except ValueError as error:
                faults.append(str(error))
            else:
                assert tg.Model.from_bytes(model.to_bytes()) == model
                if list(model.features) == NAMES:
                    raw(model, frame[:5].select(pl.col("flag").cast(pl.String), pl.exclude("flag")))
    assert faults
    assert not [fault for fault in faults if "bug" in fault]


def test_there_are_a_hundred_models() -> None:
    """Counts the models that are compared above."""
    assert len(LOSSES) * len(STATISTICS) * len(SEEDS) >= 100


def numbers(
    loss: str, y: np.ndarray, kind: Any = catboost.CatBoostRegressor, **params: Any
) -> tuple[Any, pl.DataFrame]:
    """A fit on columns of numbers, and its rows."""
    x = table(3)[0].select("x", "z")
    common = {"iterations": 6, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    return kind(loss_function=loss, **common, **params).fit(x.to_pandas(), y), x


def test_focal_and_aft(tmp_path: Path) -> None:
    """Proves that these losses come with their parameters, and predict probabilities and times as there."""
    targets = table(3)[1]
    booster, x = numbers("Focal:focal_alpha=0.3;focal_gamma=1.5", targets["two"], catboost.CatBoostClassifier)
    for model in (tg.import_model(booster), tg.import_model(saved(booster, tmp_path, "json"))):
        kept = model.params["loss"], model.params["focal_alpha"], model.params["focal_gamma"]
        assert kept == ("focal", 0.3, 1.5)
        assert model.classes == [0, 1]
        wanted = booster.predict_proba(x.to_pandas())[:, 1]
        assert np.abs(model.predict(x).to_numpy() - wanted).max() < 1e-14
        assert (model.predict(x, output="class").to_numpy() == booster.predict(x.to_pandas())).all()
    upper = np.where(targets["two"] == 1, -1, targets["positive"])
    for distribution in ("Normal", "Logistic", "Extreme"):
        loss = f"SurvivalAft:dist={distribution};scale=1.5"
        booster, x = numbers(loss, np.column_stack([targets["positive"], upper]))
        model = tg.import_model(booster)
        kept = model.params["loss"], model.params["aft_distribution"], model.params["aft_scale"]
        assert kept == ("aft", distribution.lower(), 1.5)
        for output, prediction in (("auto", "Exponent"), ("raw", "RawFormulaVal")):
            wanted = booster.predict(x.to_pandas(), prediction_type=prediction)
            assert np.abs(model.predict(x, output=output).to_numpy() - wanted).max() < 1e-13


def test_sums_of_models(tmp_path: Path) -> None:
    """Proves that sums of models are read as objects and as files, with the loss and the classes that they tell."""
    targets = table(3)[1]
    for loss, target, kind in (
        ("RMSE", "number", catboost.CatBoostRegressor),
        ("Logloss", "two", catboost.CatBoostClassifier),
        ("MultiClass", "three", catboost.CatBoostClassifier),
    ):
        summands, x = zip(*(numbers(loss, targets[target], kind, random_seed=seed) for seed in range(2)), strict=True)
        booster = catboost.sum_models(list(summands))
        wanted = booster.predict(x[0].to_pandas(), prediction_type="RawFormulaVal")
        for model in (
            tg.import_model(booster),
            *(tg.import_model(saved(booster, tmp_path, f)) for f in ("cbm", "json")),
        ):
            found = model.predict(x[0], output="raw")
            found = found.struct.unnest() if found.dtype == pl.Struct else found
            assert np.abs(found.to_numpy() - wanted).max() < 1e-14
            assert model.classes == (None if loss == "RMSE" else sorted(set(targets[target].tolist())))
            assert model.metadata["objective"] == loss


def test_a_threshold_of_probability_warns(tmp_path: Path) -> None:
    """Proves that a threshold other than a half is told by a warning and in the metadata, of an object and a file."""
    booster, x = numbers("Logloss", table(3)[1]["two"], catboost.CatBoostClassifier)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "probability_threshold" not in tg.import_model(booster).metadata
    booster.set_probability_threshold(0.05)
    booster.save_model(str(tmp_path / "model.cbm"))
    booster.save_model(str(tmp_path / "model.json"), format="json")
    sources = (booster, tmp_path / "model.json")
    for make in (*(lambda s=s: tg.import_model(s) for s in sources), lambda: tg.Model.load(tmp_path / "model.cbm")):
        with pytest.warns(tg.TargetWarning, match=r"above a probability of 0\.05, .* above 0\.5") as caught:
            model = make()
        assert caught[0].filename == __file__
        assert model.metadata["probability_threshold"] == 0.05
        assert np.abs(model.predict(x).to_numpy() - booster.predict_proba(x.to_pandas())[:, 1]).max() < 1e-14
        assert (model.predict(x, output="class").to_numpy() != booster.predict(x.to_pandas())).any()
