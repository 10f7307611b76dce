"""The README's picture from the results of `benchmarks.train`: time against accuracy.

`python -m benchmarks.picture build/benchmarks/train.jsonl docs/speed.png`; several numbers of trees
in the results (`--trees 25,50,100,200`) become a line for each library.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import altair as alt
import polars as pl

from benchmarks.harness import RESULTS


def points(path: Path) -> tuple[pl.DataFrame, str]:
    """The best time of each library, policy and number of trees; and the metric's name."""
    rows = []
    metric = "rmse"
    for line in map(json.loads, path.read_text().splitlines()):
        if "best_s" not in line:
            continue
        metric = "logloss" if "logloss" in line else metric
        library, policy = line["entry"].split(" ", 1)
        rows.append(
            {
                "library": "polars-taiga" if library == "taiga" else library,
                "policy": policy,
                "entry": line["entry"],
                "table": f"{line['rows']:,} x {line['features']}",
                "trees": line["settings"]["trees"],
                "seconds": line["best_s"],
                "metric": line[metric],
            }
        )
    if not rows:
        raise SystemExit(f"{path} holds no results of benchmarks.train")
    best = pl.DataFrame(rows).sort("seconds").group_by("table", "entry", "trees", maintain_order=True).first()
    return best.sort("entry", "trees"), metric


def chart(best: pl.DataFrame, metric: str, caption: str) -> alt.FacetChart:
    """One panel a table; to the left is faster, lower is better."""
    libraries = ["polars-taiga", "catboost", "lightgbm", "xgboost", "sklearn"]
    colours = ["#1b7837", "#e6a532", "#7b61c9", "#c0504d", "#7f7f7f"]
    base = alt.Chart(best).encode(
        x=alt.X(
            "seconds:Q",
            scale=alt.Scale(type="log", nice=False, padding=20),
            title="seconds to train, from a Polars frame (log)",
        ),
        y=alt.Y("metric:Q", scale=alt.Scale(zero=False), title=f"held-out {metric} (lower is better)"),
        color=alt.Color("library:N", scale=alt.Scale(domain=libraries, range=colours), title="library"),
        detail="entry:N",
    )
    lines = base.mark_line(opacity=0.6)
    dots = base.mark_point(filled=True, size=70).encode(shape=alt.Shape("policy:N", title="policy"))
    panel = alt.layer(lines, dots).properties(width=460, height=320)
    tables = best["table"].unique(maintain_order=True).to_list()
    facets: alt.FacetChart = panel.facet(column=alt.Column("table:N", title=None, sort=tables)).properties(
        title=alt.TitleParams("Time against accuracy", subtitle=caption)
    )
    return facets


def main() -> None:
    """Draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS / "train.jsonl")
    parser.add_argument("picture", type=Path, nargs="?", default=RESULTS / "speed.png")
    args = parser.parse_args()
    best, metric = points(args.results)
    machine = json.loads(args.results.read_text().splitlines()[0]).get("machine", {})
    trees = sorted(best["trees"].unique().to_list())
    caption = f"{' / '.join(map(str, trees))} trees, {machine.get('cpu', '')}, {machine.get('date', '')}"
    args.picture.parent.mkdir(parents=True, exist_ok=True)
    chart(best, metric, caption).save(args.picture, scale_factor=2)
    print(f"Picture: {args.picture}")


if __name__ == "__main__":
    main()
