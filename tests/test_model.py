"""tg.Model: bytes, files, tables, equality."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import polars as pl
import polars_taiga as tg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FEATURES = list("abcd")


def test_bytes_file_pickle_copy(binary: tg.Model, tmp_path: Path) -> None:
    binary.save(tmp_path / "model.taiga")
    same = [
        tg.Model(binary.to_bytes()),
        tg.Model.from_bytes(binary.to_bytes()),
        tg.Model.load(tmp_path / "model.taiga"),
        tg.Model.load(str(tmp_path / "model.taiga")),
        pickle.loads(pickle.dumps(binary)),
        copy.deepcopy(binary),
    ]
    assert all(m == binary and hash(m) == hash(binary) for m in same)
    assert len({binary, *same}) == 1
    assert binary != binary.to_bytes()


def test_a_save_that_fails_leaves_the_old_file_and_nothing_beside_it(
    binary: tg.Model, regression: tg.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.taiga"
    regression.save(path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            binary.save(path)
    assert tg.Model.load(path) == regression
    assert [p.name for p in tmp_path.iterdir()] == ["model.taiga"]
    path.chmod(0o640)
    binary.save(path)
    assert tg.Model.load(path) == binary
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["model.taiga"]


def test_a_save_through_a_link_keeps_the_link(binary: tg.Model, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    link = tmp_path / "latest.taiga"
    link.symlink_to(tmp_path / "models" / "one.taiga")
    binary.save(link)
    assert link.is_symlink()
    assert tg.Model.load(tmp_path / "models" / "one.taiga") == binary


@pytest.mark.parametrize("data", [10**11, "model", None, [1, 2], 3.5])
def test_what_is_no_bytes_is_a_type_error(data: object) -> None:
    with pytest.raises(TypeError, match="a model is made of its bytes, not of"):
        tg.Model(data)  # type: ignore[arg-type]


def test_models_differ_by_anything_learned(df: pl.DataFrame, regression: tg.Model) -> None:
    assert df.taiga.fit_gbdt("y", FEATURES, rounds=19) != regression
    assert df.head(2_000).taiga.fit_gbdt("y", FEATURES, rounds=20) != regression
    assert df.taiga.fit_gbdt("y", FEATURES, rounds=20, n_threads=1, device="cpu") == regression


def test_what_it_says_of_itself(df: pl.DataFrame, regression: tg.Model, multiclass: tg.Model) -> None:
    assert regression.features == dict.fromkeys(FEATURES, "numeric")
    assert regression.target == "y"
    assert regression.loss == "rmse"
    assert regression.classes is None
    assert regression.rounds == 20
    assert regression.params["rounds"] == 20
    assert "n_threads" not in regression.params
    assert "device" not in regression.params
    assert multiclass.classes == ["low", "mid", "top"]
    assert multiclass.loss == "multiclass"
    assert multiclass.rounds == 10
    assert list(regression.borders) == FEATURES
    assert all(b == sorted(b) and len(b) <= 254 for b in regression.borders.values())
    text = repr(multiclass)
    for word in ["kind", "multiclass", "symmetric", "low", "rounds=10", "3,000"]:
        assert word in text
    assert json.loads(regression.to_json())
    assert regression.history.height == 0


@pytest.mark.parametrize("policy", ["symmetric", "depthwise", "leafwise"])
def test_trees_are_whole(df: pl.DataFrame, policy: str) -> None:
    model = df.taiga.fit_gbdt("kind", FEATURES, rounds=4, policy=policy)
    trees = model.trees()
    assert trees["tree"].n_unique() == 12
    assert trees["output"].unique().sort().to_list() == [0, 1, 2]
    inner, leaves = trees.filter(pl.col("leaf").is_null()), trees.filter(pl.col("leaf").is_not_null())
    assert set(inner["feature"].unique()) <= set(FEATURES)
    for column in ["left", "right", "feature", "missing_left", "gain"]:
        assert inner[column].null_count() == 0 or (column, policy) == ("gain", "symmetric")
        assert leaves[column].null_count() == leaves.height
    assert leaves["value"].null_count() == 0
    if policy == "symmetric":
        # The gain of a symmetric tree's split is the level's; the level's first node has it.
        levels = inner.group_by("tree").agg(pl.len(), pl.col("gain").count())
        assert (levels["len"] == 2 ** levels["gain"] - 1).all()
    # Two children a node, each of them once; the rows of the children are the parent's.
    children = pl.concat([inner.select("tree", "node", child=side) for side in ["left", "right"]])
    rows = children.join(trees, left_on=["tree", "child"], right_on=["tree", "node"], how="inner")
    assert rows.height == trees.height - 12
    sums = rows.group_by("tree", "node").agg(pl.col("count").sum()).join(inner, on=["tree", "node"])
    assert (sums["count"] == sums["count_right"]).all()
    assert (trees.filter(pl.col("node") == 0)["count"] == df.height).all()


def test_importance(df: pl.DataFrame) -> None:
    model = df.with_columns(noise=pl.lit(1.0)).taiga.fit_gbdt("y", FEATURES, "noise", rounds=10)
    for kind in ["gain", "split", "cover"]:
        table = model.importance(kind)
        assert table.schema == {"feature": pl.String, "importance": pl.Float64}
        assert table["feature"].to_list() == [*FEATURES, "noise"]
        assert table["importance"][-1] == 0
        assert table["importance"].sum() > 0
    assert set(model.importance().sort("importance")["feature"][-2:]) == {"a", "b"}
    with pytest.raises(ValueError, match="kind"):
        model.importance("impurity")


def test_early_stopping_keeps_the_best_length(df: pl.DataFrame) -> None:
    model = df.taiga.fit_gbdt(
        "flag", FEATURES, rounds=2_000, learning_rate=0.5, eval="held", early_stopping=10, metric="auc"
    )
    history = model.history
    best = history.filter("best")["round"].item()
    assert history["auc"].arg_max() == best
    assert model.rounds == best + 1
    assert history.height == best + 11
    plain = df.taiga.fit_gbdt("flag", FEATURES, rounds=model.rounds, learning_rate=0.5, eval="held", metric="auc")
    assert df.select(tg.predict(plain)).equals(df.select(tg.predict(model)))


def test_a_name_in_another_librarys_file_does_not_make_it_ours(df: pl.DataFrame, tmp_path: Path) -> None:
    """Proves that `Model.load` reads a UBJSON file whatever its features are called."""
    xgboost = pytest.importorskip("xgboost")
    names = ["a", '"format": "polars-taiga gbdt"']
    data = xgboost.DMatrix(df.select("a", "b").to_numpy(), df["y"].to_numpy(), feature_names=names)
    path = tmp_path / "model.ubj"
    xgboost.train({"max_depth": 2}, data, 2).save_model(path)
    assert list(tg.Model.load(path).features) == names
    assert tg.Model.load(path) == tg.import_model(path)


@pytest.mark.parametrize("junk", [b"", b"x", b"\0" * 64, b"PAR1" * 100])
def test_what_is_no_model(df: pl.DataFrame, junk: bytes) -> None:
    with pytest.raises(ValueError, match="model"):
        tg.Model.from_bytes(junk)
    with pytest.raises(ValueError, match="model"):
        tg.predict(junk)
    with pytest.raises(pl.exceptions.ComputeError, match="predict: model"):
        df.select(tg.predict(pl.lit(junk), "a"))
    with pytest.raises(TypeError, match="model"):
        tg.predict(17)  # type: ignore[arg-type]


def test_a_model_cut_anywhere(regression: tg.Model) -> None:
    data = regression.to_bytes()
    for n in [*range(min(len(data), 300)), *range(0, len(data), 97), len(data) - 1]:
        with pytest.raises(ValueError, match="model"):
            tg.Model.from_bytes(data[:n])
    with pytest.raises(ValueError, match="model"):
        tg.Model.from_bytes(data + b"\0")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_model_with_a_flipped_bit(data: st.DataObject, regression: tg.Model) -> None:
    damaged = bytearray(regression.to_bytes())
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ValueError, match="model"):
        tg.Model.from_bytes(bytes(damaged))
