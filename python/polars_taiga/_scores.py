"""What a model's outputs are called: its classes, and the unit of its scores and predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polars_taiga.loss import CustomLoss

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polars_taiga.model import Model

# Losses whose raw score is the logarithm of the prediction.
_LOG = ("poisson", "gamma", "tweedie")


def listed(names: Iterable[object]) -> str:
    """Write names one after another, the first twenty."""
    texts = [str(name) for name in names]
    return ", ".join(texts[:20]) + (f", … ({len(texts)})" if len(texts) > 20 else "") or "no columns"


def class_names(model: Model) -> list[str]:
    """The names of the classes, or of the scores of a regression that has several."""
    return model._inner.class_names() or model._inner.fields(True) or []


def first_choice(model: Model, numbers: Sequence[float]) -> int:
    """Which of a prediction's numbers is shown unless told: the likeliest class, a mean, the middle quantile."""
    if model.classes is not None:
        return max(range(len(numbers)), key=numbers.__getitem__)
    return 0 if model.loss == "gaussian" or model.targets is not None else (len(numbers) - 1) // 2


def class_text(model: Model, label: object) -> str:
    """The name of a class by its label, of a quantile by its number, or either by its name."""
    names = class_names(model)
    classes = model.classes if model.classes is not None else [as_number(name) for name in names]
    for known, name in zip(classes, names, strict=True):
        # True is not the class 1.
        if (known == label and isinstance(known, bool) == isinstance(label, bool)) or name == label:
            return name
    several = "classes" if model.classes is not None else "numbers that are predicted"
    msg = f"parameter `label`: {label!r} is not one of the {several} of `{model.target}`: {listed(names)}"
    raise ValueError(msg)


def as_number(name: str) -> object:
    """The number that a name writes, else the name."""
    try:
        return float(name)
    except ValueError:
        return name


def score_title(model: Model, label: str | None = None) -> str:
    """What the raw score is, in the target's unit where it has it."""
    if model.classes is not None:
        kind = "probability" if model.learner == "forest" else "log odds" if label is None else "score"
        return f"{kind} of {model.target} = {class_names(model)[-1] if label is None else label}"
    if label is not None and model.targets is None:
        return f"{label} quantile of {model.target}" if model.loss == "quantile" else f"{label} of {model.target}"
    target = model.target if label is None else label
    titles = {"identity": target, "log": f"log of {target}", "logit": f"log odds of {target}"}
    return titles[_link(model)]


def _link(model: Model) -> str:
    """How raw scores of numbers become predictions."""
    if isinstance(own := model.params.get("loss"), CustomLoss):
        return own.link
    return "log" if model.loss in _LOG else "logit" if model.loss in ("cross_entropy", "multilabel") else "identity"


def in_unit_of_target(model: Model) -> bool:
    """Whether raw scores are predictions."""
    return model.learner == "forest" or (
        model.classes is None and _link(model) == "identity" and model.loss != "gaussian"
    )


def probability_title(model: Model, label: str | None = None) -> str:
    """What output="auto" is."""
    if model.classes is None:
        several = model.targets is not None and label is not None
        return f"predicted {label if several else model.target}"
    return f"probability of {model.target} = {class_names(model)[-1] if label is None else label}"
