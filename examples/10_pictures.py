"""Pictures of models and of what they predict, as PNG files: what `docs/pictures.md` shows.

python examples/10_pictures.py [--data FOLDER] [--out FOLDER]

The folder of data has `housing.csv` and `adult.csv`; without one, scikit-learn's tables are drawn.
"""

import argparse
import io
from pathlib import Path
from typing import Any

import polars as pl
import polars_taiga as tg
from sklearn import datasets

ROOT = Path(__file__).resolve().parents[1]


def tables(folder: Path) -> tuple[pl.DataFrame, str, pl.DataFrame, str]:
    """A table with numbers to predict, and one with two classes; and which columns these are."""
    if (folder / "housing.csv").exists():
        houses = pl.read_csv(folder / "housing.csv", infer_schema_length=None)
        people = pl.read_csv(folder / "adult.csv", infer_schema_length=None).drop("fnlwgt")
        return houses, "median_house_value", people, "income"
    diabetes, cancer = datasets.load_diabetes(scaled=False), datasets.load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in cancer.feature_names]
    return (
        pl.DataFrame(diabetes.data, schema=diabetes.feature_names).with_columns(progression=pl.Series(diabetes.target)),
        "progression",
        pl.DataFrame(cancer.data, schema=names).with_columns(
            tumour=pl.Series(cancer.target_names[cancer.target].astype(str))
        ),
        "tumour",
    )


def save(chart: Any, path: Path) -> None:
    """Write a PNG file; of 96 colours, which makes it a third as large, where Pillow is installed."""
    chart.save(path)
    try:
        from PIL import Image
    except ImportError:
        return
    few = Image.open(io.BytesIO(path.read_bytes())).convert("RGB").quantize(96)
    few.save(path, optimize=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
parser.add_argument("--out", type=Path, default=ROOT / "demo-output" / "pictures")
args = parser.parse_args()
args.out.mkdir(parents=True, exist_ok=True)
houses, price, people, group = tables(args.data)

# A fifth of the rows are held out: they end the learning, and pictures of predictions are of them.
held = pl.int_range(pl.len()) % 5 == 0
settings: dict[str, Any] = {"eval": held, "early_stopping": 30, "rounds": 300}
model = houses.taiga.fit_gbdt(price, pl.exclude(price), **settings)
quick = houses.taiga.fit_gbdt(price, pl.exclude(price), learning_rate=0.3, **settings)
branching = houses.taiga.fit_gbdt(price, pl.exclude(price), policy="leafwise", leaves=10, rounds=20)
boosted = people.taiga.fit_gbdt(group, pl.exclude(group), **settings)
forest = people.filter(~held).taiga.fit_forest(group, pl.exclude(group), trees=50, depth=10)
unseen = people.filter(held)
both = {"boosted trees": boosted, "forest": forest}
strongest = model.importance().sort("importance", descending=True)["feature"].to_list()

pictures = {
    "importance": tg.plot.importance(boosted, people),
    "history": tg.plot.history({"learning rate 0.1": model, "learning rate 0.3": quick}),
    "shap_summary": tg.plot.shap_summary(model, houses),
    "shap_waterfall": tg.plot.shap_waterfall(boosted, people, 7, features=8),
    "dependence": tg.plot.dependence(model, houses, strongest[0]),
    "partial_dependence": tg.plot.partial_dependence(model, houses, strongest[0]),
    "partial_dependence_of_two": tg.plot.partial_dependence(model, houses, strongest[:2]),
    "interactions": tg.plot.interactions(model, houses),
    "tree": tg.plot.tree(branching, 0),
    "tree_symmetric": tg.plot.tree(model, 0),
    "calibration": tg.plot.calibration(both, unseen),
    "roc": tg.plot.roc(both, unseen),
    "precision_recall": tg.plot.precision_recall(both, unseen),
    "residuals": tg.plot.residuals(model, houses.filter(held)),
    "histogram": tg.plot.histogram(people, people.columns[0], by=group, bins=30, density=True),
}
for name, chart in pictures.items():
    save(chart, args.out / f"{name}.png")
    print(f"{args.out / name}.png")
