"""SQL with models: table functions as BigQuery and Spanner have them; this needs the package `sqlglot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_taiga.model import Model

__all__ = ["sql"]


def sql(
    query: str,
    /,
    *,
    models: Mapping[str, Model | bytes] | None = None,
    **tables: pl.DataFrame | pl.LazyFrame,
) -> pl.LazyFrame:
    """Make a lazy query of SQL in whose FROM stand functions of models. This needs `sqlglot` (`polars-taiga[sql]`).

    Each function becomes a lazy frame, and the rest of the statement is Polars' own SQL (`pl.SQLContext`) on it:
    columns that nobody asks for are not read or predicted, conditions on columns of a table are checked before it is
    predicted, and a scan streams.

    =====================================================  ==========================================================
    `ML.PREDICT(MODEL m, TABLE t)`                         the table with `prediction`, and of a classifier
                                                           `predicted_<target>`, the class
    `ML.EXPLAIN_PREDICT(MODEL m, TABLE t)`                 besides, `top_feature_attributions`, the features that move
                                                           the score most and by how much (Shapley values; 5, or
                                                           `STRUCT(3 AS top_k_features)`), `baseline_prediction_value`
                                                           and `prediction_value`, which is their sum
    `ML.EVALUATE(MODEL m, TABLE t)`                        one row, a column for each metric (the usual ones, or
                                                           `STRUCT(['auc', 'f1'] AS metric)`)
    `ML.FEATURE_IMPORTANCE(MODEL m)`                       `feature`, `importance_weight` (its number of splits),
                                                           `importance_gain`, `importance_cover`
    `ML.WEIGHTS(MODEL m)`                                  the coefficients of a sparse logistic regression
    `HISTOGRAM(TABLE t, 'x', 32)`                          `lower`, `upper`, `count`, a row for each of 32 bins
    `TARGET_ENCODE(TABLE t, 'cat', 'y')`                   the table with `cat_encoded`
    =====================================================  ==========================================================

    For `TABLE t` may stand a query in parentheses; a common table expression (WITH) is a table too. Last, each takes a
    `STRUCT(value AS option, …)` of what the Python function takes: `STRUCT(50 AS rounds)` of `predict`, and so on.

    `CREATE [OR REPLACE] MODEL [IF NOT EXISTS] name OPTIONS(option = value, …) AS SELECT …` fits a model at once, of all
    columns, and puts it into `models`. Options: `target` (or `input_label_cols=['y']`), `model_type` (`'gbdt'`, the
    default, `'forest'`, `'sparse_lr'`, or BigQuery's names of these), and the parameters of the fit, what is a
    dictionary there as `STRUCT(1 AS age)`. It gives a table of one row, `name` and `model`. Several statements are
    parted by `;`, and the last one gives the result.

    Parameters
    ----------
    query
        The statements. Names in double quotes or backticks, texts in single quotes.
    models
        Models by name, a dictionary where some are created.
    tables
        Frames by name.

    Returns
    -------
    LazyFrame
        The query, not yet run.

    Raises
    ------
    ImportError
        Without the package `sqlglot`.
    ValueError, TypeError
        For what is wrong in the text, with its line, its column and carets below it.
    polars.exceptions.PolarsError
        Likewise, where Polars finds it: a column that is missing (ColumnNotFoundError), bad syntax
        (SQLInterfaceError, SQLSyntaxError).

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> customers = pl.DataFrame({"id": range(100)}).with_columns(age=pl.col("id") % 50, left=pl.col("id") % 50 > 30)
    >>> models = {}
    >>> fitted = tg.sql(
    ...     "CREATE MODEL churn OPTIONS(target = 'left', rounds = 20) AS SELECT age, left FROM customers",
    ...     models=models,
    ...     customers=customers,
    ... )
    >>> models["churn"].features
    {'age': 'numeric'}
    >>> query = "SELECT id FROM ML.PREDICT(MODEL churn, TABLE customers) WHERE prediction > 0.5 AND id < 33"
    >>> tg.sql(query, models=models, customers=customers).collect()["id"].to_list()
    [31, 32]
    """
    if not isinstance(query, str):
        msg = f"sql: a query is a string, not {type(query).__name__}"  # type: ignore[unreachable]
        raise TypeError(msg)
    for name, table in tables.items():
        if not isinstance(table, pl.DataFrame | pl.LazyFrame):
            msg = f"sql: table `{name}` is a DataFrame or a LazyFrame, not {type(table).__name__}"  # type: ignore[unreachable]
            raise TypeError(msg)
    # What reads SQL is imported by those who write some.
    from polars_taiga._sql_statements import frame_of

    frames = {name: table.lazy() for name, table in tables.items()}
    return frame_of(query, {} if models is None else models, frames)
