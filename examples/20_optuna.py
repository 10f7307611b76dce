"""Let Optuna search, and prune trials whose rounds don't promise much."""

from collections.abc import Mapping

import numpy as np
import optuna
import polars as pl
import polars_taiga as tg

rng = np.random.default_rng(19)
n = 6_000
rows = pl.DataFrame({f"x{i}": rng.normal(size=n) for i in range(6)}).with_columns(
    y=pl.col("x0") + pl.col("x1") * pl.col("x2") + pl.Series(rng.normal(size=n)),
    held_out=pl.int_range(pl.len()) % 5 == 0,
)
columns = pl.col("^x.*$")


def objective(trial: optuna.Trial) -> float:
    """The error of held-out rows; told to Optuna every ten rounds, which may end the trial there."""

    def watch(done: int, metrics: Mapping[str, float]) -> None:
        if done % 10 == 0:
            trial.report(metrics["rmse"], done)
            if trial.should_prune():
                raise optuna.TrialPruned

    model: tg.Model = rows.taiga.fit_gbdt(
        "y",
        columns,
        eval="held_out",
        rounds=200,
        early_stopping=30,
        learning_rate=trial.suggest_float("learning_rate", 0.02, 0.5, log=True),
        depth=trial.suggest_int("depth", 2, 8),
        l2=trial.suggest_float("l2", 0.1, 30.0, log=True),
        callback=watch,
    )
    curve = model.history
    return float("inf") if curve is None else curve["rmse"].to_numpy().min()


optuna.logging.set_verbosity(optuna.logging.WARNING)
sampler, pruner = optuna.samplers.TPESampler(seed=0), optuna.pruners.MedianPruner(n_warmup_steps=20)
study = optuna.create_study(sampler=sampler, pruner=pruner)
study.optimize(objective, n_trials=25)
pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
print(f"{pruned} of {len(study.trials)} trials were pruned")
print(f"rmse {study.best_value:.4f} with {study.best_params}")
