"""The picture of what several GPUs gain, from the results of `benchmarks.gpu_several --out`.

`python -m benchmarks.scaling build/benchmarks/gpu_several.jsonl docs/scaling.png`: how many times as fast as one GPU
several are, for each task; a panel a table.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import altair as alt
import polars as pl

from benchmarks.harness import RESULTS

TASKS = {
    "boosted trees, one": "a symmetric tree",
    "depthwise trees, one": "a depthwise tree",
    "boosted trees, 500 rounds": "a fit of 500 trees",
    "boosted trees, 100 rounds": "a fit of 100 trees",
    "forest of depth 12, one": "a tree of a forest",
    "forest of depth 12, 100 trees": "a forest of 100 trees",
    "predict, forest": "predictions of the forest",
}


def points(path: Path) -> pl.DataFrame:
    """How many times as fast as the first device each is, by the number of its GPUs."""
    rows = []
    for told in map(json.loads, path.read_text().splitlines()):
        if told["task"] not in TASKS:
            continue
        for device, seconds in zip(told["devices"], told["seconds"], strict=True):
            numbers = device.removeprefix("cuda:")
            gpus = told.get("gpus", 4) if numbers == "all" else len(numbers.split(","))
            table = f"{told['rows'] / 1e6:g} million rows x {told['features']}"
            gain = told["seconds"][0] / seconds
            rows.append({"rows": told["rows"], "table": table, "task": TASKS[told["task"]], "GPUs": gpus, "gain": gain})
    if not rows:
        raise SystemExit(f"{path} holds no results of benchmarks.gpu_several")
    return pl.DataFrame(rows).sort("rows", "task", "GPUs")


def chart(gains: pl.DataFrame, caption: str) -> alt.FacetChart:
    """One panel a table, a line a task, and the line that nothing is above."""
    most = gains["GPUs"].max()
    counts = gains["GPUs"].unique().sort().to_list()
    colours = alt.Scale(domain=list(TASKS.values()), scheme="dark2")
    base = alt.Chart(gains).encode(
        x=alt.X("GPUs:Q", axis=alt.Axis(values=counts, format="d"), scale=alt.Scale(domain=[1, most], padding=12)),
        y=alt.Y("gain:Q", title="times as fast as one GPU", scale=alt.Scale(domain=[1, most])),
        color=alt.Color("task:N", scale=colours, title=None, sort=list(TASKS.values())),
    )
    ideal = alt.Chart(gains).mark_line(color="#bbbbbb", strokeDash=[4, 4]).encode(x="GPUs:Q", y="GPUs:Q")
    panel = alt.layer(ideal, base.mark_line(), base.mark_point(filled=True, size=60)).properties(width=330, height=300)
    tables = gains["table"].unique(maintain_order=True).to_list()
    facets: alt.FacetChart = panel.facet(column=alt.Column("table:N", title=None, sort=tables)).properties(
        title=alt.TitleParams("Several GPUs of one host, the same bytes", subtitle=caption)
    )
    return facets


def main() -> None:
    """Draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS / "gpu_several.jsonl")
    parser.add_argument("picture", type=Path, nargs="?", default=RESULTS / "scaling.png")
    parser.add_argument("--caption", default="")
    args = parser.parse_args()
    args.picture.parent.mkdir(parents=True, exist_ok=True)
    chart(points(args.results), args.caption).save(args.picture, scale_factor=2)
    print(f"Picture: {args.picture}")


if __name__ == "__main__":
    main()
