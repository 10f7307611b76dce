"""What a model's outputs are called: its classes, and the unit of its scores and predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polars_taiga.model import Model

# Losses whose raw score is the logarithm of the prediction.
_LOG = ("poisson", "gamma", "tweedie")


def listed(names: Iterable[object]) -> str:
    """Write names one after another, the first twenty."""
    texts = [str(name) for name in names]
    return ", ".join(texts[:20]) + (f", … ({len(texts)})" if len(texts) > 20 else "") or "no columns"


def class_names(model: Model) -> list[str]:
    """The labels as the fields of predictions are named."""
    return model._inner.class_names() or []


def class_text(model: Model, label: object) -> str:
    """The name of a class by its label, or by its name."""
    classes, names = model.classes or [], class_names(model)
    for known, name in zip(classes, names, strict=True):
        # True is not the class 1.
        if (known == label and isinstance(known, bool) == isinstance(label, bool)) or name == label:
            return name
    msg = f"parameter `label`: {label!r} is not one of the classes of `{model.target}`: {listed(names)}"
    raise ValueError(msg)


def score_title(model: Model, label: str | None = None) -> str:
    """What the raw score is, in the target's unit where it has it."""
    if model.classes is not None:
        kind = "probability" if model.learner == "forest" else "log odds" if label is None else "score"
        return f"{kind} of {model.target} = {class_names(model)[-1] if label is None else label}"
    if model.loss in _LOG:
        return f"log of {model.target}"
    if model.loss == "cross_entropy":
        return f"log odds of {model.target}"
    return model.target


def in_unit_of_target(model: Model) -> bool:
    """Whether raw scores are predictions."""
    return model.learner == "forest" or (model.classes is None and model.loss not in (*_LOG, "cross_entropy"))


def probability_title(model: Model, label: str | None = None) -> str:
    """What output="auto" is."""
    if model.classes is None:
        return f"predicted {model.target}"
    return f"probability of {model.target} = {class_names(model)[-1] if label is None else label}"
