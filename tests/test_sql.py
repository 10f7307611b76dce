"""SQL with models: each function is what Python has, the query around it is pushed through it, errors point at it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import polars as pl
import polars_taiga as tg
import pytest

POLARS = tuple(map(int, pl.__version__.split(".")[:2]))


@pytest.fixture(scope="module")
def table(df: pl.DataFrame) -> pl.DataFrame:
    return df.head(600).with_row_index("id").with_columns(cat=pl.col("kind"), clean=pl.col("a") + pl.col("w"))


@pytest.fixture(scope="module")
def models(table: pl.DataFrame) -> dict[str, Any]:
    fit = table.taiga.fit_gbdt
    return {
        "two": fit("flag", *"abcd", rounds=10),
        "three": fit("kind", *"abcd", rounds=5),
        "number": fit("y", "a", "cat", rounds=5).to_bytes(),
        "several": fit(pl.struct("y", "w"), "a", "b", rounds=3),
        "computed": fit("y", (pl.col("a") * 2).alias("twice"), rounds=3),
        "ranker": fit("w", "a", "b", group="group", loss="lambdarank", rounds=3),
        "a forest": table.taiga.fit_forest("kind", *"abcd", trees=5),
        "linear": table.taiga.fit_sparse_lr("flag", dense=["clean", "d"]),
    }


def run(query: str, models: Any, table: Any, **more: Any) -> pl.DataFrame:
    return tg.sql(query, models=models, t=table, **more).collect()


def test_predict(models: dict[str, Any], table: pl.DataFrame) -> None:
    found = run("SELECT * FROM ML.PREDICT(MODEL two, TABLE t)", models, table)
    ours = table.with_columns(
        prediction=tg.predict(models["two"]), predicted_flag=tg.predict(models["two"], output="class")
    )
    assert found.equals(ours)
    found = run(
        "select prediction.top as p from ml.predict(model three, (select * from t), struct(2 as rounds))", models, table
    )
    assert found["p"].equals(models["three"].predict(table, rounds=2).struct.field("top"), check_names=False)
    # A number has no class, bytes are a model, names may be in quotes, frames may be lazy.
    found = run('SELECT * FROM ML.PREDICT(MODEL number, TABLE "t")', models, table.lazy())
    assert found.columns == [*table.columns, "prediction"]
    found = run("SELECT predicted_kind FROM ML.PREDICT(MODEL `a forest`, TABLE t)", models, table)
    assert found["predicted_kind"].equals(models["a forest"].predict(table, output="class"), check_names=False)
    # Features that were expressions are columns here.
    found = run("SELECT prediction FROM ML.PREDICT(MODEL computed, (SELECT a * 2 AS twice FROM t))", models, table)
    assert found["prediction"].equals(models["computed"].predict(table, (pl.col("a") * 2).alias("twice")))


def test_explain_predict(models: dict[str, Any], table: pl.DataFrame) -> None:
    for name in ("two", "three", "number", "a forest", "linear"):
        model = models[name] if isinstance(models[name], tg.Model) else tg.Model(models[name])
        query = f'SELECT * FROM ML.EXPLAIN_PREDICT(MODEL "{name}", TABLE t, STRUCT(2 AS top_k_features))'
        found = run(query, models, table)
        assert not [c for c in found.columns if c.startswith("_")]
        assert found["prediction"].equals(model.predict(table), check_names=False)
        shap = model.predict(table, output="shap")
        for i, row in enumerate(found.head(20).iter_rows(named=True)):
            parts = (
                shap[i]
                if model.classes is None or len(model.classes) == 2
                else shap[i][str(row[f"predicted_{model.target}"])]
            )
            parts = parts if "base_value" in parts else parts[str(row[f"predicted_{model.target}"])]
            assert row["baseline_prediction_value"] == parts["base_value"]
            assert row["prediction_value"] == pytest.approx(sum(parts.values()), abs=1e-12)
            most = sorted((f for f in parts if f != "base_value"), key=lambda f: -abs(parts[f]))[:2]
            assert [one["feature"] for one in row["top_feature_attributions"]] == most
            assert [one["attribution"] for one in row["top_feature_attributions"]] == [parts[f] for f in most]


def test_evaluate(models: dict[str, Any], table: pl.DataFrame) -> None:
    found = run("SELECT auc, logloss FROM ML.EVALUATE(MODEL two, (SELECT * FROM t WHERE held))", models, table)
    held = table.filter("held")
    assert found.row(0) == tuple(models["two"].score(held, metric=m) for m in ("auc", "logloss"))
    assert run("SELECT * FROM ML.EVALUATE(MODEL number, TABLE t)", models, table).columns == ["rmse", "mae", "r2"]
    for name in ("three", "a forest"):
        found = run(f"SELECT * FROM ML.EVALUATE(MODEL `{name}`, TABLE t)", models, table)
        assert found.row(0) == tuple(models[name].score(table, metric=m) for m in found.columns)
    found = run(
        "SELECT * FROM ML.EVALUATE(MODEL ranker, TABLE t, STRUCT(['ndcg@3', 'map'] AS metric, group AS group))",
        models,
        table,
    )
    assert found.row(0) == tuple(models["ranker"].score(table, metric=m, group="group") for m in ("ndcg@3", "map"))
    found = run(
        "SELECT * FROM ML.EVALUATE(MODEL several, TABLE t, STRUCT('rmse' AS metric, 'w' AS weight))", models, table
    )
    assert found.item() == models["several"].score(table, metric="rmse", weight="w")


def test_what_models_consist_of(models: dict[str, Any], table: pl.DataFrame) -> None:
    found = run("SELECT feature, importance_gain AS g FROM ML.FEATURE_IMPORTANCE(MODEL two) ORDER BY g", models, table)
    assert found.rows() == models["two"].importance("gain").sort("importance").rows()
    found = run("SELECT name, coefficient FROM ML.WEIGHTS(MODEL linear)", models, table)
    ours = models["linear"].coefficients().select("name", "coefficient").rows()
    assert found.rows() == [*ours, ("__INTERCEPT__", models["linear"].intercepts[0])]


def test_scan_model(models: dict[str, Any], tmp_path: Path) -> None:
    """Nodes as a lazy frame, of a model, its bytes or its file; a table for SQL."""
    path = tmp_path / "two.taiga"
    models["two"].save(path)
    for model in (models["two"], models["two"].to_bytes(), path, str(path)):
        assert tg.scan_model(model).collect().equals(models["two"].trees())
    query = "SELECT feature, COUNT(*) AS n FROM nodes WHERE leaf IS NULL GROUP BY feature ORDER BY feature"
    splits = tg.sql(query, nodes=tg.scan_model(models["two"])).collect()
    ours = models["two"].trees().filter(pl.col("leaf").is_null()).group_by("feature").len().sort("feature")
    assert splits.rows() == ours.rows()
    with pytest.raises(ValueError, match="no trees"):
        tg.scan_model(models["linear"])


def test_histogram_and_encoding(models: dict[str, Any], table: pl.DataFrame) -> None:
    found = run("SELECT * FROM HISTOGRAM(TABLE t, 'd', 8)", models, table)
    assert found.equals(table.select(tg.histogram("d", 8).explode()).unnest("d"))
    options = "STRUCT([-1, 1.5] AS range, 'w' AS weights, TRUE AS density)"
    found = run(f"SELECT * FROM HISTOGRAM((SELECT d, w FROM t), d, {options}) WHERE density > 0", models, table)
    ours = table.select(tg.histogram("d", range=(-1, 1.5), weights="w", density=True).explode()).unnest("d")
    assert found.equals(ours.filter(pl.col("density") > 0))
    found = run(
        "SELECT cat_encoded FROM TARGET_ENCODE(TABLE t, 'cat', 'y', STRUCT('kfold' AS kind, 3 AS seed))", models, table
    )
    assert found["cat_encoded"].equals(
        table.select(tg.target_encode("cat", "y", kind="kfold", seed=3)).to_series(), check_names=False
    )
    found = run("SELECT * FROM TARGET_ENCODE(TABLE t, ['cat', 'group'], y)", models, table)
    assert found.columns == [*table.columns, "cat_encoded", "group_encoded"]


def test_what_is_around(models: dict[str, Any], table: pl.DataFrame) -> None:
    """Joins, common table expressions, subqueries, and functions in functions."""
    query = """
    -- Of a CTE of a CTE, ML.PREDICT(in a comment
    WITH early AS (SELECT * FROM t WHERE id < 50 /* ( */),
         scored AS (SELECT id, prediction AS p FROM ML.PREDICT(MODEL two, TABLE early)),
         best AS (SELECT * FROM scored WHERE p > 0.5)
    SELECT s.id, s.p, o.prediction AS q, 'ML.PREDICT(''' AS text
    FROM best AS s
    JOIN ML.PREDICT(
        MODEL number,
        (WITH own AS (SELECT * FROM early) SELECT id, a, cat FROM own WHERE id IN (SELECT id FROM best))
    ) AS o
      ON s.id = o.id
    ORDER BY s.id
    """
    ours = (
        table.head(50)
        .select("id", p=tg.predict(models["two"]), q=tg.predict(models["number"]))
        .filter(pl.col("p") > 0.5)
    )
    found = run(query, models, table)
    assert found.select("id", "p", "q").equals(ours)
    assert found["text"].unique().to_list() == ["ML.PREDICT('"]
    query = (
        "SELECT COUNT(*) AS n FROM (SELECT * FROM ML.PREDICT(MODEL two, TABLE t)) AS x, HISTOGRAM(TABLE t, 'd', 3) AS h"
    )
    query = query.replace(", HISTOGRAM", " CROSS JOIN HISTOGRAM")
    assert run(query, models, table).item() == 3 * len(table)
    nested = "SELECT * FROM HISTOGRAM((SELECT prediction FROM ML.PREDICT(MODEL two, TABLE t)), 'prediction', 4)"
    assert run(nested, models, table)["count"].sum() == len(table)
    # A CTE hides a table of its name; names of our own do not clash with the tables'.
    hidden = "WITH t AS (SELECT * FROM t WHERE id < 7) SELECT COUNT(*) AS n FROM ML.PREDICT(MODEL two, TABLE t)"
    if pl.__version__.startswith("1."):
        with pytest.raises(ValueError, match="the table `t` hides this"):
            run(hidden, models, table)
        hidden = hidden.replace("WITH t", "WITH u").replace("TABLE t", "TABLE u")
    assert run(hidden, models, table, _taiga_0=table).item() == 7


def test_pushdown(models: dict[str, Any], table: pl.DataFrame, tmp_path: Path) -> None:
    """Of a scan what is needed alone is read, conditions on it reach it, and nothing is predicted in vain."""
    path = tmp_path / "t.parquet"
    table.write_parquet(path)
    lazy = pl.scan_parquet(path)
    query = "SELECT id, prediction FROM ML.PREDICT(MODEL two, TABLE t) WHERE id > 100 AND prediction > 0.5"
    frame = tg.sql(query, models=models, t=lazy)
    plan = frame.explain()
    assert re.search(r"PROJECT 5/\d+ COLUMNS", plan), plan
    assert re.search(r'SELECTION: .*"?id"?', plan), plan
    assert plan.count(":predict(") == 1, plan
    ours = (
        table.filter(pl.col("id") > 100)
        .select("id", prediction=tg.predict(models["two"]))
        .filter(pl.col("prediction") > 0.5)
    )
    assert frame.collect().equals(ours)
    assert frame.collect(engine="streaming").sort("id").equals(ours)
    plan = tg.sql("SELECT id FROM ML.EXPLAIN_PREDICT(MODEL two, TABLE t) LIMIT 3", models=models, t=lazy).explain()
    assert ":predict(" not in plan
    assert re.search(r"PROJECT 1/\d+ COLUMNS", plan), plan


def test_create_model(table: pl.DataFrame) -> None:
    models: dict[str, Any] = {}
    create = "CREATE MODEL m OPTIONS(target='flag', rounds=5, seed=3) AS SELECT a, b, flag FROM t"
    row = run(create, models, table)
    expected = table.taiga.fit_gbdt("flag", "a", "b", rounds=5, seed=3)
    assert models["m"] == expected
    assert row.rows() == [("m", expected.to_bytes())]
    with pytest.raises(ValueError, match="there is a model `m` already"):
        run(create, models, table)
    run(create.replace("MODEL", "MODEL IF NOT EXISTS").replace("seed=3", "seed=4"), models, table)
    assert models["m"] == expected
    run(create.replace("CREATE", "CREATE OR REPLACE").replace("seed=3", "seed=4"), models, table)
    assert models["m"] != expected

    def fitted(options: str, query: str = "SELECT a, b, y FROM t") -> tg.Model:
        run(f"CREATE OR REPLACE MODEL m OPTIONS({options}) AS {query}", models, table)
        return models["m"]

    of_classes = fitted("model_type='BOOSTED_TREE_CLASSIFIER', input_label_cols=['w'], rounds=2", "SELECT a, w FROM t")
    assert of_classes.classes == [1, 2, 3]
    of_numbers = fitted("model_type='random_forest_regressor', input_label_cols=['w'], trees=2", "SELECT a, w FROM t")
    assert (of_numbers.learner, of_numbers.classes) == ("forest", None)
    linear = fitted("model_type='LOGISTIC_REG', l2=1.5", "SELECT clean, d, flag AS label FROM t")
    assert linear == table.rename({"flag": "label"}).taiga.fit_sparse_lr("label", dense=["clean", "d"], l2=1.5)
    weighted = fitted(
        "target='y', weight='w', eval='held', early_stopping=2, rounds=9", "SELECT a, b, y, w, held FROM t"
    )
    assert list(weighted.features) == ["a", "b"]
    assert weighted == table.taiga.fit_gbdt("y", "a", "b", weight="w", eval="held", early_stopping=2, rounds=9)
    # Models that an earlier statement made; of several, the last one gives the result; models= may be left out.
    script = f"{create}; SELECT prediction FROM ML.PREDICT(MODEL m, (SELECT * FROM t WHERE id < 9));"
    assert tg.sql(script, t=table).collect()["prediction"].equals(expected.predict(table.head(9)))


ERRORS = [
    ("SELECT id\nFROM ML.PREDICT(MODEL tow, TABLE t)", ValueError, "no model `tow`; did you mean `two`?", "tow", 2),
    ("SELECT id FROM ML.PREDICT(MODEL two, TABLE tt)", ValueError, "no table `tt`", "tt", 1),
    ("SELECT id FROM ML.PREDCT(MODEL two, TABLE t)", ValueError, "did you mean ML.PREDICT?", "ML.PREDCT", 1),
    ("SELECT id, ML.PREDICT(MODEL two, TABLE t) FROM t", ValueError, "stands behind FROM or JOIN", "ML.PREDICT", 1),
    ("SELECT nope\nFROM ML.PREDICT(MODEL two, TABLE t)", pl.exceptions.ColumnNotFoundError, '"nope"', "nope", 1),
    (
        "SELECT id FROM ML.PREDICT(MODEL two, (SELECT id\nFROM t))",
        pl.exceptions.PolarsError,
        '"a"',
        "ML.PREDICT(MODEL two, (SELECT id",
        1,
    ),
    (
        "SELECT id FROM ML.PREDICT(MODEL two, (SELECT\n  idd FROM t))",
        pl.exceptions.ColumnNotFoundError,
        '"idd"',
        "idd",
        2,
    ),
    ("SELECT 'id FROM t", ValueError, "not closed", "'id FROM t", 1),
    ("SELECT id FROM ML.PREDICT(MODEL two, TABLE t", ValueError, "not closed", "(", 1),
    ("SELECT id FROM ML.PREDICT(MODEL two)", ValueError, "TABLE name or (query) is missing", ")", 1),
    (
        "SELECT id FROM ML.PREDICT(MODEL two, TABLE t, STRUCT(1 AS round))",
        ValueError,
        "did you mean rounds?",
        "1 AS round",
        1,
    ),
    (
        "SELECT id FROM ML.PREDICT(MODEL two, TABLE t, STRUCT(-1 AS rounds))",
        ValueError,
        "rounds=-1",
        "ML.PREDICT(MODEL two, TABLE t, STRUCT(-1 AS rounds))",
        1,
    ),
    ("SELECT id FROM ML.PREDICT(TABLE t, MODEL two)", ValueError, "expected MODEL name", "TABLE t", 1),
    (
        "SELECT id FROM ML.PREDICT(MODEL two, TABLE t) WHERE (id = 3))",
        pl.exceptions.SQLInterfaceError,
        "found: )",
        ")",
        1,
    ),
    (
        "SELECT *\nFROM ML.EXPLAIN_PREDICT(MODEL several, TABLE t)",
        ValueError,
        "several numbers",
        "ML.EXPLAIN_PREDICT(MODEL several, TABLE t)",
        2,
    ),
    (
        "SELECT * FROM ML.PREDICT(MODEL two, (SELECT *, 1 AS prediction FROM t))",
        ValueError,
        "column `prediction` already",
        None,
        1,
    ),
    ("SELECT * FROM ML.WEIGHTS(MODEL two)", ValueError, "no coefficients", "ML.WEIGHTS(MODEL two)", 1),
    ("SELECT * FROM HISTOGRAM(TABLE t, 'd', 0)", ValueError, "`bins`", "HISTOGRAM(TABLE t, 'd', 0)", 1),
    ("SELECT * FROM HISTOGRAM(TABLE t, 3)", ValueError, "a column's name", "3", 1),
    ("SELECT 1 FROM t; SELECT 2 FROM t", ValueError, "would be lost", "SELECT", 1),
    (
        "CREATE MODEL m OPTIONS(target='flag', depht=3) AS SELECT a, flag FROM t",
        TypeError,
        "did you mean `depth`?",
        "depht=3",
        1,
    ),
    (
        "CREATE MODEL m OPTIONS(\n  target='nope'\n) AS SELECT a, flag FROM t",
        ValueError,
        "not `nope`",
        "target='nope'",
        2,
    ),
    (
        "CREATE MODEL m OPTIONS(target='flag', model_type='GBM') AS SELECT a, flag FROM t",
        ValueError,
        "model_type",
        "model_type='GBM'",
        1,
    ),
    ("CREATE MODEL m OPTIONS(target='flag') AS SELECT flag FROM t", ValueError, "no column beside", "AS", 1),
    ("CREATE MODEL m AS", ValueError, "a query is missing", "", 1),
    (
        "WITH a AS (SELECT id FROM t) SELECT * FROM ML.PREDICT(MODEL two, (SELECT b FROM\n a))",
        pl.exceptions.ColumnNotFoundError,
        '"b"',
        "b",
        1,
    ),
    # Polars tells the names of functions in small letters.
    ("SELECT id,\n NOPE(a) FROM t", pl.exceptions.SQLInterfaceError, "nope", "NOPE", 2),
    ("SELECT b AS nope,\n Nope(a) FROM t", pl.exceptions.SQLInterfaceError, "nope", "Nope", 2),
    ("", ValueError, "empty", None, 0),
]


@pytest.mark.parametrize(("query", "kind", "message", "marked", "line"), ERRORS)
def test_errors_point_at_the_text(
    query: str, kind: Any, message: str, marked: str | None, line: int, models: dict[str, Any], table: pl.DataFrame
) -> None:
    with pytest.raises(kind) as error:
        run(query, dict(models), table)
    text = str(error.value)
    if pl.__version__.startswith("1.") and isinstance(error.value, pl.exceptions.PolarsError):
        message = message.strip('"')  # of which Polars 1 says less
    assert message in text
    assert text.startswith("sql: ")
    if marked is not None:
        *_, place, shown, carets = text.split("\n")
        assert place.startswith(f"line {line}, column ")
        assert shown == f"  {query.split(chr(10))[line - 1]}"
        start, end = carets.index("^"), len(carets)
        assert shown[start:end] == marked
        assert f"column {start - 1}:" in place


def test_bad_arguments(models: dict[str, Any], table: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="a query is a string, not int"):
        tg.sql(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="table `t` is a DataFrame or a LazyFrame, not dict"):
        tg.sql("SELECT 1", t={})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a model is made of its bytes"):
        run("SELECT * FROM ML.PREDICT(MODEL m, TABLE t)", {"m": 3}, table)
    monkeypatch.setitem(sys.modules, "sqlglot.tokens", None)
    with pytest.raises(ImportError, match=r"sql needs the package sqlglot: pip install 'polars-taiga\[sql\]'"):
        run("SELECT 1 FROM t", models, table)


@pytest.mark.skipif(POLARS < (1, 36), reason="older versions take some names for patterns everywhere")
@pytest.mark.parametrize("name", ["^c.*$", "*"])
def test_names_that_look_like_patterns(name: str, table: pl.DataFrame) -> None:
    """Proves that functions read the columns that are called so, and no others."""
    exact = pl.selectors.by_name(name)
    table = table.with_columns(pl.col("b").fill_null(1.0).abs())
    odd = table.rename({"b": name})
    query = "SELECT top_feature_attributions AS top, prediction_value FROM ML.EXPLAIN_PREDICT(MODEL m, TABLE t)"
    for target in ("y", "kind"):
        mine, plain = (of.taiga.fit_gbdt(target, "a", b, rounds=5) for of, b in ((odd, exact), (table, "b")))
        found, wanted = run(query, {"m": mine}, odd), run(query, {"m": plain}, table)
        assert found["prediction_value"].equals(wanted["prediction_value"])
        for one, other in zip(found["top"].to_list(), wanted["top"].to_list(), strict=True):
            assert [(of["feature"].replace(name, "b"), of["attribution"]) for of in one] == [
                tuple(of.values()) for of in other
            ]
    for query in (
        "SELECT * FROM HISTOGRAM(TABLE t, 'NAME', 7)",
        "SELECT * FROM HISTOGRAM(TABLE t, 'a', 7, STRUCT('NAME' AS weights))",
        "SELECT id, cat_encoded FROM TARGET_ENCODE(TABLE t, 'cat', 'NAME')",
        "SELECT id, cat_encoded FROM TARGET_ENCODE(TABLE t, 'cat', 'y', STRUCT('NAME' AS weight))",
    ):
        assert run(query.replace("NAME", name), {}, odd).equals(run(query.replace("NAME", "b"), {}, table))


def test_options_that_are_dictionaries(table: pl.DataFrame) -> None:
    """Proves that a STRUCT is a dictionary of the fit's, by column, by label or of what is told."""
    models: dict[str, Any] = {}

    def fitted(options: str, query: str = "SELECT a, b, flag FROM t") -> tg.Model:
        run(f"CREATE OR REPLACE MODEL m OPTIONS(target='flag', {options}) AS {query}", models, table)
        return models["m"]

    by_column = 'rounds=4, monotone=STRUCT(1 AS a, -1 AS "b"), bins=STRUCT(8 AS a), feature_weights=STRUCT(0.5 AS b)'
    expected = table.taiga.fit_gbdt(
        "flag", "a", "b", rounds=4, monotone={"a": 1, "b": -1}, bins={"a": 8}, feature_weights={"b": 0.5}
    )
    assert fitted(by_column) == expected
    by_label = fitted('rounds=4, class_weight=STRUCT(3 AS "true")')
    assert by_label == table.taiga.fit_gbdt("flag", "a", "b", rounds=4, class_weight={True: 3})
    told = fitted("rounds=2, metadata=STRUCT('x' AS author, 'y' AS \"of what\")")
    assert told.metadata == {"author": "x", "of what": "y"}
    with pytest.raises(ValueError, match=r"`monotone`: 2 is not -1, 0 or 1|monotone.*2"):
        fitted("rounds=2, monotone=STRUCT(2 AS a)")
    with pytest.raises(ValueError, match="field a stands twice"):
        fitted("rounds=2, monotone=STRUCT(1 AS a, 1 AS a)")


def test_columns_of_a_linear_model() -> None:
    """Proves that options say which column is which, and that the first list is the indices where they do not."""
    row = pl.int_range(60)
    frame = pl.select(two=row % 2 == 0, v=pl.concat_list(row * 0.5), i=pl.concat_list(row % 7), d=row % 5)
    models: dict[str, Any] = {}

    def fitted(options: str, columns: str = "two, v, i, d") -> tg.Model:
        query = f"CREATE OR REPLACE MODEL m OPTIONS(model_type='sparse_lr', target='two'{options}) AS SELECT {columns}"
        run(query + " FROM t", models, frame)
        return models["m"]

    expected = frame.taiga.fit_sparse_lr("two", "i", "v", dense="d")
    assert fitted(", indices='i', values='v'") == expected
    assert fitted(", indices='i', dense='d'") == expected
    assert fitted("", "two, i, v, d") == expected
    assert fitted(", indices='i'", "two, i, d") == frame.taiga.fit_sparse_lr("two", "i", dense="d")
    with pytest.raises(ValueError, match="indices names no column to learn from: `nope`"):
        fitted(", indices='nope'")
    with pytest.raises(ValueError, match="`v`, `i`, `j` are more than that"):
        fitted("", "two, v, i, i AS j")


def test_a_model_to_begin_with(table: pl.DataFrame) -> None:
    """Proves that `init_model` is a name of `models=`."""
    models: dict[str, Any] = {"m": table.taiga.fit_gbdt("flag", "a", "b", rounds=3)}
    query = "CREATE MODEL n OPTIONS(target='flag', rounds=6, init_model='m') AS SELECT a, b, flag FROM t"
    run(query, models, table)
    assert models["n"] == table.taiga.fit_gbdt("flag", "a", "b", rounds=6, init_model=models["m"])
    with pytest.raises(ValueError, match="there is no model `mm`; did you mean `m`"):
        run(query.replace("'m'", "'mm'").replace("MODEL n", "MODEL o"), models, table)


def test_a_linear_model_has_no_importance_of_splits() -> None:
    """Proves that the error is in words of SQL, and says what there is."""
    frame = pl.DataFrame({"two": [True, False] * 30, "d": range(60)})
    models = {"m": frame.taiga.fit_sparse_lr("two", dense="d")}
    with pytest.raises(ValueError, match=r"a linear model has no trees.*ML\.WEIGHTS"):
        tg.sql("SELECT * FROM ML.FEATURE_IMPORTANCE(MODEL m)", models=models)
