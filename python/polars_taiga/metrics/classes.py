"""Metrics of predicted classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from polars_taiga.custom_metric import measured
from polars_taiga.metrics._spec import with_number, with_word

if TYPE_CHECKING:
    import polars as pl

    from polars_taiga._plugin import IntoColumn
    from polars_taiga.metrics._spec import Label, OnError

__all__ = [
    "accuracy",
    "auc",
    "average_precision",
    "balanced_accuracy",
    "ece",
    "f1",
    "logloss",
    "mcc",
]


def logloss(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    positive: Label | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the log loss; a probability of the row's class below 2^-52 counts as that.

    Parameters
    ----------
    target
        The classes: a Boolean, or 0 and 1; any labels beside a struct, or where `positive` names one. A number
        between 0 and 1 counts as that share of a row of class 1.
    predicted
        Probabilities: a column of numbers, each of the second of two classes; or, of several classes, a struct with a
        field for each, called as its label is (as `tg.predict` gives it).
    weight
        As in `rmse`.
    positive
        Of two classes, the label whose probability is predicted; of more, the one that is told from all others.
        Default: True, 1, or the struct's second field. An error where no row has it and the rows have two others.
    on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]})
    >>> round(df.select(tg.metrics.logloss("y", "p")).item(), 6)
    0.472288
    """
    return measured("logloss", "logloss", target, predicted, weight=weight, on_error=on_error, positive=positive)


def auc(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    average: Literal["macro", "weighted"] | None = None,
    weight: IntoColumn | None = None,
    positive: Label | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the area under the ROC curve: the share of pairs of rows in their order, ties counting half.

    Parameters
    ----------
    target
        The classes: a Boolean, or 0 and 1; any labels beside a struct, or where `positive` names one. A number
        between 0 and 1 counts as that share of a row of class 1.
    predicted
        Of two classes the probability of the second, or other numbers that order rows as it does; of several a struct
        of probabilities with a field for each, called as its label is (as `tg.predict` gives it).
    average
        Of several classes, each against the rest: `"macro"` (default) the mean, `"weighted"` weighed by the classes'
        rows.
    weight
        As in `rmse`.
    positive
        Of two classes, the label whose probability is predicted; of more, the one that is told from all others.
        Default: True, 1, or the struct's second field. An error where no row has it and the rows have two others.
    on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]})
    >>> df.select(tg.metrics.auc("y", "p")).item()
    0.75
    """
    metric = with_word("auc", "auc", average, ("macro", "weighted"))
    return measured("auc", metric, target, predicted, weight=weight, on_error=on_error, positive=positive)


def average_precision(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    average: Literal["macro", "weighted"] | None = None,
    weight: IntoColumn | None = None,
    positive: Label | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the average precision: the precision from each score on, weighed by what that adds to recall.

    Parameters
    ----------
    target
        The classes: a Boolean, or 0 and 1; any labels beside a struct, or where `positive` names one. A number
        between 0 and 1 counts as that share of a row of class 1.
    predicted
        Of two classes the probability of the second, or other numbers that order rows as it does; of several a struct
        of probabilities with a field for each, called as its label is (as `tg.predict` gives it).
    average
        Of several classes, as in `auc`.
    weight
        As in `rmse`.
    positive
        Of two classes, the label whose probability is predicted; of more, the one that is told from all others.
        Default: True, 1, or the struct's second field. An error where no row has it and the rows have two others.
    on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]})
    >>> round(df.select(tg.metrics.average_precision("y", "p")).item(), 6)
    0.833333
    """
    metric = with_word("average_precision", "average_precision", average, ("macro", "weighted"))
    return measured("average_precision", metric, target, predicted, weight=weight, on_error=on_error, positive=positive)


def accuracy(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    positive: Label | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the share of the rows whose class is predicted.

    Parameters
    ----------
    target
        The classes: a Boolean, or 0 and 1; any labels beside a struct or labels, or where `positive` names one.
    predicted
        Probabilities: a column of floats, each of the second of two classes, which is called where it is above 0.5;
        or a struct with a field for each class, called as its label is, of which the largest is called. Or the labels
        that are predicted: a String, Categorical, Enum, Boolean or integer column.
    weight
        As in `rmse`.
    positive
        Of two classes, the label whose probability is predicted; of more, the one that is told from all others.
        Default: True, 1, or the struct's second field. An error where no row has it and the rows have two others.
    on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]})
    >>> df.select(tg.metrics.accuracy("y", "p")).item()
    0.75
    """
    return measured("accuracy", "accuracy", target, predicted, weight=weight, on_error=on_error, positive=positive)


def balanced_accuracy(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    positive: Label | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the mean over classes of the share of their rows whose class is predicted.

    Parameters
    ----------
    target
        The classes: a Boolean, or 0 and 1; any labels beside a struct or labels, or where `positive` names one.
    predicted
        Probabilities: a column of floats, each of the second of two classes, which is called where it is above 0.5;
        or a struct with a field for each class, called as its label is, of which the largest is called. Or the labels
        that are predicted: a String, Categorical, Enum, Boolean or integer column.
    weight
        As in `rmse`.
    positive
        Of two classes, the label whose probability is predicted; of more, the one that is told from all others.
        Default: True, 1, or the struct's second field. An error where no row has it and the rows have two others.
    on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]})
    >>> df.select(tg.metrics.balanced_accuracy("y", "p")).item()
    0.75
    """
    return measured(
        "balanced_accuracy", "balanced_accuracy", target, predicted, weight=weight, on_error=on_error, positive=positive
    )


def f1(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    average: Literal["macro", "weighted", "micro"] | None = None,
    weight: IntoColumn | None = None,
    positive: Label | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the harmonic mean of precision and recall.

    Parameters
    ----------
    target
        The classes: a Boolean, or 0 and 1; any labels beside a struct or labels, or where `positive` names one.
    predicted
        Probabilities: a column of floats, each of the second of two classes, which is called where it is above 0.5;
        or a struct with a field for each class, called as its label is, of which the largest is called. Or the labels
        that are predicted: a String, Categorical, Enum, Boolean or integer column.
    average
        Default: of two classes that are Booleans, 0 and 1, or that `positive` tells apart, the value of the second;
        of all others `"macro"`, the mean of the classes' values. `"weighted"` weighs them by their rows, `"micro"`
        adds counts.
    weight
        As in `rmse`.
    positive
        Of two classes, the label whose probability is predicted; of more, the one that is told from all others.
        Default: True, 1, or the struct's second field. An error where no row has it and the rows have two others.
    on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]})
    >>> round(df.select(tg.metrics.f1("y", "p")).item(), 6)
    0.666667
    """
    metric = with_word("f1", "f1", average, ("macro", "weighted", "micro"))
    return measured("f1", metric, target, predicted, weight=weight, on_error=on_error, positive=positive)


def mcc(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    weight: IntoColumn | None = None,
    positive: Label | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute Matthews' correlation coefficient of classes and predicted ones; 0 where either is the same for all rows.

    Parameters
    ----------
    target
        The classes: a Boolean, or 0 and 1; any labels beside a struct or labels, or where `positive` names one.
    predicted
        Probabilities: a column of floats, each of the second of two classes, which is called where it is above 0.5;
        or a struct with a field for each class, called as its label is, of which the largest is called. Or the labels
        that are predicted: a String, Categorical, Enum, Boolean or integer column.
    weight
        As in `rmse`.
    positive
        Of two classes, the label whose probability is predicted; of more, the one that is told from all others.
        Default: True, 1, or the struct's second field. An error where no row has it and the rows have two others.
    on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]})
    >>> round(df.select(tg.metrics.mcc("y", "p")).item(), 6)
    0.57735
    """
    return measured("mcc", "mcc", target, predicted, weight=weight, on_error=on_error, positive=positive)


def ece(
    target: IntoColumn,
    predicted: IntoColumn,
    *,
    bins: int = 15,
    weight: IntoColumn | None = None,
    positive: Label | None = None,
    on_error: OnError = "raise",
) -> pl.Expr:
    """Compute the expected calibration error: the mean distance of predicted and true shares over bins of equal width.

    Parameters
    ----------
    target
        The classes: a Boolean, or 0 and 1; any labels beside a struct, or where `positive` names one. A number
        between 0 and 1 counts as that share of a row of class 1.
    predicted
        Probabilities: a column of numbers, each of the second of two classes; or, of several classes, a struct with a
        field for each, called as its label is (as `tg.predict` gives it).
    bins
        How many bins [0, 1] is cut into, 1 to 10,000; each holds its upper edge. Of two classes the second one's
        probability is binned (Naeini et al. 2015), of several the largest (Guo et al. 2017).
    weight
        As in `rmse`.
    positive
        Of two classes, the label whose probability is predicted; of more, the one that is told from all others.
        Default: True, 1, or the struct's second field. An error where no row has it and the rows have two others.
    on_error
        As in `rmse`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_taiga as tg
    >>> df = pl.DataFrame({"y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]})
    >>> round(df.select(tg.metrics.ece("y", "p", bins=2)).item(), 6)
    0.0875
    """
    metric = with_number(
        "ece", "ece", "bins", bins, lambda x: x == int(x) and 1 <= x <= 10_000, "a number of bins from 1 to 10,000"
    )
    return measured("ece", metric, target, predicted, weight=weight, on_error=on_error, positive=positive)
