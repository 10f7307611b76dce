"""The main job from end to end on real data: `make demo`, or `make demo DATA=file.csv TARGET=column`.

Reads a table lazily, fits a model with an expression (early stopping on held-out rows), scores
with an expression that streams to Parquet, saves and loads the model, and does the same work with
LightGBM beside it: same rows, same split, same settings. Without DATA it uses three tables that
are bundled with scikit-learn, so nothing is downloaded. Then it explains a row, draws what each
column does to all of them, and tours the other learners: a random forest, and a logistic regression
on sparse rows, beside scikit-learn's. Everything lands in `demo-output/`.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from pathlib import Path
from typing import Any, Literal

import altair as alt
import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs
import polars_taiga as tg
from sklearn import datasets, ensemble, linear_model
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score, root_mean_squared_error

TREES, LEARNING_RATE, LEAVES, L2, PATIENCE = 500, 0.05, 31, 1.0, 30
SPLIT = "_split"
CATEGORIES = cs.string() | cs.categorical() | cs.enum()

Loss = Literal["logloss", "multiclass", "rmse"]
Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Table:
    """A Parquet file with features, a target and a column `_split`: train, eval or test."""

    name: str
    path: Path
    target: str
    features: list[str]
    loss: Loss


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one library did."""

    library: str
    fit_s: float
    predict_s: float
    trees: int
    scores: dict[str, float]
    curve: list[float]


def add_split(frame: pl.DataFrame) -> pl.DataFrame:
    """Deals the rows: 60 % to train on, 20 % to stop early by, 20 % to judge by."""
    draw = np.random.default_rng(2024).permutation(frame.height) / frame.height
    kind = np.select([draw < 0.6, draw < 0.8], ["train", "eval"], "test")
    return frame.with_columns(pl.Series(SPLIT, kind.astype(str).tolist()))


def bundled(out: Path) -> list[Table]:
    """Three of scikit-learn's own tables as Parquet files."""
    chosen: list[tuple[str, Any, Loss]] = [
        ("breast cancer", datasets.load_breast_cancer(), "logloss"),
        ("digits", datasets.load_digits(), "multiclass"),
        ("diabetes", datasets.load_diabetes(scaled=False), "rmse"),
    ]
    tables = []
    for name, bunch, loss in chosen:
        features = [str(feature) for feature in bunch.feature_names]
        frame = pl.DataFrame(bunch.data.astype(np.float64), schema=features).with_columns(
            pl.Series("target", bunch.target)
        )
        path = out / f"{name.replace(' ', '_')}.parquet"
        add_split(frame).write_parquet(path)
        tables.append(Table(name, path, "target", features, loss))
    return tables


def users(file: Path, target: str, out: Path) -> list[Table]:
    """The user's file, checked: what the target is, and which columns can serve as features."""
    if not file.exists():
        sys.exit(f"DATA={file}: there is no such file")
    if file.suffix.lower() in {".parquet", ".pq"}:
        frame = pl.read_parquet(file)
    else:
        frame = pl.read_csv(
            file, try_parse_dates=True, infer_schema_length=10_000, null_values=["", "NA", "NaN", "null"]
        )
    if target not in frame.columns:
        sys.exit(f"TARGET={target}: not a column of {file}, which has {', '.join(frame.columns)}")
    usable = frame.drop(target).select(cs.numeric() | cs.boolean() | cs.temporal() | CATEGORIES).columns
    if left_out := [name for name in frame.columns if name not in usable and name != target]:
        print(f"Left out (neither numbers nor categories): {', '.join(left_out)}")
    if not usable:
        sys.exit(f"{file} has no column besides the target that could be a feature")
    if empty := frame[target].null_count():
        print(f"Left out: {empty:,} rows without a target")
        frame = frame.drop_nulls(target)

    kind, classes = frame.schema[target], frame[target].n_unique()
    text = kind in (pl.String, pl.Categorical, pl.Enum, pl.Boolean)
    classify = text or (kind.is_integer() and classes <= 20)
    if classify and not 2 <= classes <= 100:
        sys.exit(f"TARGET={target} has {classes} classes; the demo takes 2 to 100")
    if not classify and not kind.is_numeric():
        sys.exit(f"TARGET={target} is of type {kind}: neither classes nor numbers")
    loss: Loss = "rmse" if not classify else "logloss" if classes == 2 else "multiclass"
    if loss != "rmse":  # Codes in the order of the labels, for both libraries alike.
        frame = frame.with_columns(pl.col(target).cast(pl.String).rank("dense").cast(pl.Int64) - 1)
    path = out / f"{file.stem}-prepared.parquet"
    add_split(frame.select(*usable, target)).write_parquet(path)
    return [Table(file.stem, path, target, usable, loss)]


def judge(loss: Loss, truth: Floats, prediction: Floats) -> dict[str, float]:
    """The test metrics: of probabilities, or of values."""
    if loss == "rmse":
        spread = float(np.std(truth)) or 1.0
        error = float(root_mean_squared_error(truth, prediction))
        return {"RMSE": error, "R2": 1 - (error / spread) ** 2}
    if loss == "logloss":
        return {"AUC": float(roc_auc_score(truth, prediction)), "log loss": float(log_loss(truth, prediction))}
    labels = np.arange(prediction.shape[1])
    best = prediction.argmax(axis=1)
    return {
        "accuracy": float(accuracy_score(truth, best)),
        "log loss": float(log_loss(truth, prediction, labels=labels)),
    }


def taiga(table: Table, policy: Literal["symmetric", "leafwise"], out: Path) -> tuple[Outcome, tg.Model]:
    """Fits and scores with polars-taiga, inside lazy queries."""
    rows = pl.scan_parquet(table.path)

    start = time.perf_counter()
    fit = tg.fit_gbdt(
        table.target,
        *table.features,
        eval=pl.col(SPLIT) == "eval",
        early_stopping=PATIENCE,
        loss=table.loss,
        rounds=TREES,
        learning_rate=LEARNING_RATE,
        policy=policy,
        leaves=LEAVES if policy == "leafwise" else None,
        l2=L2,
        seed=7,
    )
    model_bytes = rows.filter(pl.col(SPLIT) != "test").select(fit).collect().item()
    fit_s = time.perf_counter() - start

    # A model is a value: it goes to disk and comes back as the same bytes.
    saved = out / f"{table.path.stem}-{policy}.taiga"
    tg.Model.from_bytes(model_bytes).save(saved)
    model = tg.Model.load(saved)
    assert model.to_bytes() == model_bytes

    scored = out / f"{table.path.stem}-{policy}-scored.parquet"
    start = time.perf_counter()
    rows.with_columns(prediction=tg.predict(model)).sink_parquet(scored)
    predict_s = time.perf_counter() - start

    test = pl.read_parquet(scored).filter(pl.col(SPLIT) == "test")
    if table.loss == "multiclass":
        prediction = test["prediction"].struct.unnest().to_numpy()
    else:
        prediction = test["prediction"].to_numpy()
    scores = judge(table.loss, test[table.target].cast(pl.Float64).to_numpy(), prediction)
    return Outcome(f"polars-taiga, {policy}", fit_s, predict_s, model.rounds, scores, history(model)), model


def history(model: tg.Model) -> list[float]:
    """The metric of the eval rows after each round."""
    return model.history[:, 1].to_list()


def importance(model: tg.Model) -> pl.DataFrame:
    """Columns `feature` and `gain`, the largest first."""
    return model.importance(kind="gain").rename({"importance": "gain"}).sort("gain", descending=True)


def lightgbm(table: Table, out: Path) -> Outcome:
    """The same work the usual way: out of the query, into NumPy, and back."""
    start = time.perf_counter()
    frame = pl.read_parquet(table.path)
    part = {name: frame.filter(pl.col(SPLIT) == name) for name in ("train", "eval", "test")}
    categories = frame.select(pl.col(table.features)).select(CATEGORIES).columns

    def matrix(rows: pl.DataFrame) -> Floats:
        """NumPy's numbers; of categories their codes."""
        codes = [
            pl.col(c).cast(pl.String).cast(pl.Enum(frame[c].cast(pl.String).unique().drop_nulls().sort()))
            for c in categories
        ]
        return rows.with_columns(codes).select(pl.col(table.features).to_physical().cast(pl.Float64)).to_numpy()

    numbers = {name: matrix(rows) for name, rows in part.items()}
    truth = {name: rows[table.target].cast(pl.Float64).to_numpy() for name, rows in part.items()}
    params: dict[str, Any] = {
        "objective": {"logloss": "binary", "multiclass": "multiclass", "rmse": "regression"}[table.loss],
        "metric": {"logloss": "binary_logloss", "multiclass": "multi_logloss", "rmse": "rmse"}[table.loss],
        "learning_rate": LEARNING_RATE,
        "num_leaves": LEAVES,
        "lambda_l2": L2,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 1.0,
        "seed": 7,
        "verbose": -1,
    }
    if table.loss == "multiclass":
        params["num_class"] = frame[table.target].n_unique()
    where = [table.features.index(c) for c in categories]
    data = lgb.Dataset(numbers["train"], truth["train"], params=params, categorical_feature=where)
    held_out = lgb.Dataset(numbers["eval"], truth["eval"], params=params, reference=data)
    curves: dict[str, dict[str, list[float]]] = {}
    watch: list[Any] = [lgb.early_stopping(PATIENCE, verbose=False), lgb.record_evaluation(curves)]
    booster = lgb.train(params, data, TREES, valid_sets=[held_out], callbacks=watch)
    fit_s = time.perf_counter() - start

    start = time.perf_counter()
    frame = pl.read_parquet(table.path)
    every = np.asarray(booster.predict(matrix(frame)))
    columns = {f"p{k}": every[:, k] for k in range(every.shape[1])} if every.ndim == 2 else {"prediction": every}
    frame.with_columns(**{name: pl.Series(values) for name, values in columns.items()}).write_parquet(
        out / f"{table.path.stem}-lightgbm-scored.parquet"
    )
    predict_s = time.perf_counter() - start

    scores = judge(table.loss, truth["test"], every[(frame[SPLIT] == "test").to_numpy()])
    curve = next(iter(next(iter(curves.values())).values()))
    return Outcome("LightGBM, leafwise", fit_s, predict_s, booster.best_iteration, scores, curve)


def show(table: Table, outcomes: list[Outcome]) -> None:
    """The comparison as plain text."""
    metrics = list(outcomes[0].scores)
    print(
        "  "
        + "library, policy".ljust(26)
        + "".join(name.rjust(12) for name in [*metrics, "trees", "fit s", "predict s"])
    )
    for o in outcomes:
        values = [f"{o.scores[name]:.4f}" for name in metrics] + [str(o.trees), f"{o.fit_s:.3f}", f"{o.predict_s:.3f}"]
        print("  " + o.library.ljust(26) + "".join(value.rjust(12) for value in values))


def picture(done: list[tuple[Table, list[Outcome], pl.DataFrame]], path: Path) -> None:
    """For each table: the metric of the eval rows by round, and what the model leans on."""
    rows = []
    for table, outcomes, gains in done:
        curves = pl.DataFrame(
            [
                {"library": o.library, "round": i, "value": value}
                for o in outcomes
                for i, value in enumerate(o.curve, start=1)
                if i <= o.trees + PATIENCE
            ]
        )
        left = (
            alt.Chart(curves)
            .mark_line()
            .encode(
                x=alt.X("round:Q", title="trees"),
                y=alt.Y("value:Q", title="RMSE" if table.loss == "rmse" else "log loss", scale=alt.Scale(zero=False)),
                color=alt.Color("library:N", title=None),
            )
            .properties(width=420, height=220, title=f"{table.name}: held-out rows, while training")
        )
        right = (
            alt.Chart(gains.head(10))
            .mark_bar(color="#1b7837")
            .encode(x=alt.X("gain:Q", title="total gain"), y=alt.Y("feature:N", sort="-x", title=None))
            .properties(width=300, height=220, title="what the model leans on")
        )
        rows.append(alt.hconcat(left, right).resolve_scale(color="independent"))
    alt.vconcat(*rows).save(path, scale_factor=2)


def explain(table: Table, model: tg.Model, path: Path) -> None:
    """One row's way to its prediction as text, and every column's part in all of them as a picture."""
    test = pl.read_parquet(table.path).filter(pl.col(SPLIT) == "test")
    # Of several classes, that of the row.
    label = test.select(tg.predict(model, output="class")).item(0, 0) if table.loss == "multiclass" else None
    print(f"\nThe first of those rows of {table.name}, explained:")
    print("  " + str(model.explain(test.head(1), label=label)).replace("\n", "\n  "))
    tg.plot.shap_summary(model, test, label=label).properties(title=table.name).save(path, scale_factor=2)


def tour() -> None:
    """The other learners on the bundled digits, beside scikit-learn's."""
    bunch = datasets.load_digits()
    frame = add_split(
        pl.DataFrame(bunch.data, schema=[f"pixel{i}" for i in range(64)]).with_columns(
            digit=pl.Series(bunch.target).cast(pl.String)
        )
    )
    # A row as the list of the pixels that are not white, and their values.
    pixels = pl.concat_list(pl.col("^pixel.*$"))
    rows = frame.select(
        "digit",
        SPLIT,
        *(pl.col(f"pixel{i}") for i in range(64)),
        pixel=pixels.list.eval((pl.element() > 0).arg_true()),
        ink=pixels.list.eval(pl.element().filter(pl.element() > 0) / 16),
    )
    train, test = rows.filter(pl.col(SPLIT) != "test"), rows.filter(pl.col(SPLIT) == "test")
    x, y = train.select(pl.col("^pixel[0-9]+$")).to_numpy(), train["digit"].to_list()
    unseen, truth = test.select(pl.col("^pixel[0-9]+$")).to_numpy(), test["digit"].to_list()
    fits: list[tuple[str, Any, Any]] = [
        (
            "random forest, 200 trees",
            tg.fit_forest("digit", pl.col("^pixel[0-9]+$"), trees=200, seed=7),
            ensemble.RandomForestClassifier(200, n_jobs=-1, random_state=7),
        ),
        (
            "sparse logistic regression",
            tg.fit_sparse_lr("digit", "pixel", "ink", l2=1 / train.height),
            linear_model.LogisticRegression(max_iter=1000),
        ),
    ]
    print(f"\nThe other learners, on digits: {train.height:,} rows to train on, {test.height:,} to judge by")
    for name, expr, peer in fits:
        start = time.perf_counter()
        model = train.lazy().select(expr).collect().item()
        ours_s = time.perf_counter() - start
        ours = test.lazy().select(tg.predict(model, output="class")).collect().to_series().to_list()
        start = time.perf_counter()
        peer.fit(x / 16, y)
        peer_s = time.perf_counter() - start
        theirs = peer.predict(unseen / 16)
        print(
            f"  {name}: accuracy {accuracy_score(truth, ours):.4f} in {ours_s:.3f} s; "
            f"scikit-learn {accuracy_score(truth, theirs):.4f} in {peer_s:.3f} s"
        )


def main() -> None:
    """Runs the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a CSV or Parquet file; scikit-learn's tables without one")
    parser.add_argument("--target", help="the column to predict")
    parser.add_argument("--out", type=Path, default=Path("demo-output"))
    args = parser.parse_args()
    if (args.data is None) != (args.target is None):
        parser.error("--data and --target go together: make demo DATA=file.csv TARGET=column")
    args.out.mkdir(parents=True, exist_ok=True)

    tables = bundled(args.out) if args.data is None else users(args.data, args.target, args.out)
    print(f"At most {TREES} trees, learning rate {LEARNING_RATE}, l2 {L2:g}, early stopping after {PATIENCE} rounds.")
    print("Times start at the Parquet file; metrics are of the 20 % of rows that no fit has seen.")
    done = []
    for table in tables:
        height = pl.scan_parquet(table.path).select(pl.len()).collect().item()
        print(f"\n{table.name}: {height:,} rows, {len(table.features)} features, loss {table.loss}")
        symmetric, model = taiga(table, "symmetric", args.out)
        leafwise, _ = taiga(table, "leafwise", args.out)
        outcomes = [symmetric, leafwise, lightgbm(table, args.out)]
        show(table, outcomes)
        gains = importance(model)
        whole = gains["gain"].sum() or 1.0
        print("  leans on: " + ", ".join(f"{name} ({gain / whole:.0%})" for name, gain in gains.head(5).iter_rows()))
        done.append((table, outcomes, gains))
    picture(done, args.out / "demo.png")
    explain(table, model, args.out / "shap.png")
    if args.data is None:
        tour()
    print(f"\nScored tables, models and the pictures demo.png and shap.png are in {args.out}/")


if __name__ == "__main__":
    main()
