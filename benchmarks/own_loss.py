"""Times fits with losses of one's own against those with the built-in ones: python -m benchmarks.own_loss"""

from __future__ import annotations

import argparse
import time

import numpy as np
import polars as pl
import polars_taiga as tg
from polars_taiga.loss import Symbol


def touching(y: Symbol, f: Symbol) -> Symbol:
    """The curvature of the parabola that touches the logarithm of the hyperbolic cosine from above."""
    r = y - f
    return tg.when(r.abs() < 1e-3).then(1 - r * r / 3).otherwise(r.tanh() / r)


def focal(y: Symbol, f: Symbol) -> tuple[Symbol, Symbol]:
    """The focal loss at gamma 2, and the larger of its second derivative and of what is never negative in it."""
    z = (2 * y - 1) * f
    p, q, cost = z.sigmoid(), (-z).sigmoid(), (-z).softplus()
    slope = q**2 * (q + 2 * p * cost)
    return q**2 * cost, np.maximum(q**2 * p * (5 * q - 2 * cost * (q - 2 * p)), slope * p)


PAIRS = {
    "rmse": ("number", tg.loss(lambda y, f: 0.5 * (y - f) ** 2), {}),
    "cross_entropy": ("share", tg.loss(lambda y, f: np.log1p(np.exp(f)) - y * f, link="logit"), {}),
    "poisson": (
        "count",
        tg.loss(lambda y, f: f.exp() - y * f, hessian=lambda y, f: (f.exp() + y) / 2, link="log"),
        {},
    ),
    "gamma": (
        "positive",
        tg.loss(lambda y, f: f + y * (-f).exp(), hessian=lambda y, f: (1 + y * (-f).exp()) / 2, link="log"),
        {},
    ),
    "huber": (
        "number",
        tg.loss(
            lambda y, f: (
                tg.when(abs(y - f) <= 1).then((y - f) ** 2 / 2).otherwise(abs(y - f) - 0.5)  # Huber (1964)
            ),
            hessian=1,
        ),
        {"huber_delta": 1.0},
    ),
    "logloss": ("two", tg.loss(lambda y, f: f.softplus() - y * f, link="logit"), {}),
    "focal": ("two", tg.loss(lambda y, f: focal(y, f)[0], hessian=lambda y, f: focal(y, f)[1], link="logit"), {}),
    "expectile": (
        "number",
        tg.loss(lambda y, f: tg.when(f < y).then(0.8).otherwise(0.2) * (y - f) ** 2),
        {"alpha": 0.8},
    ),
    "log_cosh": (
        "number",
        tg.loss(lambda y, f: (2 * (y - f)).softplus() - (y - f), hessian=touching),
        {},
    ),
    "tweedie": ("positive", tg.loss(lambda y, f: 2 * (0.5 * f).exp() + 2 * y * (-0.5 * f).exp(), link="log"), {}),
}


def table(rows: int, features: int) -> pl.DataFrame:
    """Numbers with targets of every kind."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    s = np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]
    return pl.DataFrame({f"x{i}": x[:, i] for i in range(features)}).with_columns(
        number=pl.Series(s + rng.normal(size=rows)),
        positive=pl.Series(np.exp(s)),
        count=pl.Series(rng.poisson(np.exp(s))),
        share=pl.Series(1 / (1 + np.exp(-s))),
        two=pl.Series((s + rng.normal(size=rows) > 0).astype(np.int8)),
    )


def main() -> None:
    """Print a line for each loss: seconds of both, the median of their ratios, and how far predictions are apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    df = table(args.rows, args.features)
    x = [c for c in df.columns if c.startswith("x")]
    for name, (target, own, params) in PAIRS.items():

        def fit(loss: object, target: str = target, params: dict[str, float] = params) -> tuple[float, bytes]:
            start = time.perf_counter()
            more = {**params, "rounds": args.rounds, "n_threads": args.threads, "device": args.device}
            model = df.select(tg.fit_gbdt(target, *x, loss=loss, **more)).item()  # type: ignore[arg-type]
            return time.perf_counter() - start, model

        # One after the other, so that both meet the same machine.
        runs = [(fit(name), fit(own)) for _ in range(args.repeats)]
        ratio = float(np.median([b[0] / a[0] for a, b in runs]))
        a, b = (df.select(tg.predict(run[1])).to_series().to_numpy() for run in runs[-1])
        apart = float(np.max(np.abs(a - b) / (1 + np.abs(a))))
        best = [min(run[i][0] for run in runs) for i in (0, 1)]
        print(f"{name:14} built in {best[0]:7.3f} s   own {best[1]:7.3f} s   ratio {ratio:.3f}   apart {apart:.1e}")


if __name__ == "__main__":
    main()
