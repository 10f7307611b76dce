"""Lays out the documentation's site, and checks the links of what it is made of.

python .ci/site.py check          fails on a link in a Markdown file that leads nowhere, and a page that the menu lacks
python .ci/site.py lay OUT        writes the pages for MkDocs into OUT (.ci/mkdocs.yml)
    [--executed]                  with what each example prints

The pages are the files of the repository: docs/, README.md, benchmarks/README.md, examples/. Made are the pages of the
examples, those for people who come from another library (from README's tables and src/core/params), and the reference.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.S | re.M)
# Where files of the repository come to stand in the site.
MOVED = {
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
PEERS = {"XGBoost": 2, "LightGBM": 3, "CatBoost": 4}


def sources() -> list[Path]:
    """The Markdown files that people read."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")]
    return [*top, *sorted((ROOT / "docs").glob("*.md"))]


def anchors(path: Path) -> set[str]:
    """The anchors of a file's headings, as GitHub and MkDocs make them."""
    text = FENCE.sub("", path.read_text())
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        found |= {slug, re.sub(r"-+", "-", slug)}
    return found


def faults() -> list[str]:
    """The links that lead nowhere, and the pages that nobody finds in the menu."""
    menu = set(re.findall(r"^ +- [^:\n]+: (\S+\.md)$", (ROOT / ".ci" / "mkdocs.yml").read_text(), re.M))
    out = [f".ci/mkdocs.yml: its menu lacks {name}" for name in map(place, sources()) if name not in menu]
    for path in sources():
        text = FENCE.sub("", path.read_text())
        for _, target in LINK.findall(text):
            if re.match(r"\w+:", target):
                continue
            name, _, anchor = target.partition("#")
            other = (path.parent / name).resolve() if name else path
            if not other.exists():
                out.append(f"{path.relative_to(ROOT)}: {target}: there is no such file")
            elif anchor and other.suffix == ".md" and anchor not in anchors(other):
                out.append(f"{path.relative_to(ROOT)}: {target}: there is no such heading")
    return out


def place(path: Path) -> str | None:
    """The page of a file of the repository; none where it has none."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    if name in MOVED:
        return MOVED[name]
    if name.startswith("docs/"):
        return name[5:]
    if name == "examples" or name == "examples/":
        return "examples/index.md"
    if name.startswith("examples/") and name.endswith(".py"):
        return f"{name[:-3]}.md"
    return "benchmarks.md" if name == "benchmarks" else None


def page(path: Path, depth: int = 0) -> str:
    """A file's text with its links led to pages; what has no page is named without a link."""

    def lead(match: re.Match[str]) -> str:
        shown, target = match.groups()
        if re.match(r"\w+:|#", target):
            return match.group(0)
        name, hash_, anchor = target.partition("#")
        to = place((path.parent / name).resolve())
        if to is None:
            return re.sub(r"^!?\[(.*)\]$", r"\1", shown)
        return f"{shown}({'../' * depth}{to}{hash_}{anchor})"

    pieces = re.split(r"(^```.*?^```$)", path.read_text(), flags=re.S | re.M)
    return "".join(piece if piece.startswith("```") else LINK.sub(lead, piece) for piece in pieces)


def printed(path: Path) -> str:
    """What an example prints."""
    done = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr}")
    return done.stdout


def rust_pairs(path: Path, constant: str) -> str:
    text = path.read_text()
    start = text.index(f"const {constant}:")
    return text[start : text.index("];", start)]


def renamed() -> list[tuple[list[str], list[str]]]:
    """Names of other libraries, and those here (src/core/params/names.rs)."""
    body = rust_pairs(ROOT / "src/core/params/names.rs", "RENAMED")
    pairs = re.findall(r"\(\s*&\[([^\]]*)\],\s*&\[([^\]]*)\],?\s*\)", body)
    return [(re.findall(r'"([^"]+)"', theirs), re.findall(r'"([^"]+)"', ours)) for theirs, ours in pairs]


def meant() -> list[tuple[str, list[str], str]]:
    """Values of other libraries by parameter, and those here (src/core/params/values.rs)."""
    body = rust_pairs(ROOT / "src/core/params/values.rs", "MEANS")
    rows = re.findall(r'\(\s*"([^"]+)",\s*&\[([^\]]*)\],\s*"([^"]*)",?\s*\)', body)
    return [(name, re.findall(r'"([^"]+)"', theirs), ours) for name, theirs, ours in rows]


def code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def rows_of(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines[2:]]


def coming_from(peer: str) -> str:
    """The page for people who come from a library."""
    readme = (ROOT / "README.md").read_text()
    section = readme[readme.index("\n## Parameters") : readme.index("\n## Against the peers")]
    tables = re.findall(r"(?:^\|.*\n)+", section, re.M)
    out = [f"# Coming from {peer}", ""]
    out += [
        "A name or a value of another library's is an error here that says what it is called in this one, all that is",
        "wrong with a call at once. What stands below are the tables that these errors are made from.",
        "",
    ]
    if peer in PEERS:
        at = PEERS[peer]
        out += ["## Parameters", "", f"| {peer} | polars-taiga | default here |", "|---|---|---|"]
        out += [f"| {row[at]} | {row[0]} | {row[1]} |" for row in rows_of(tables[0]) if len(row) > at and row[at]]
        out += ["", "## Losses", "", f"| {peer} | polars-taiga | for |", "|---|---|---|"]
        out += [f"| {row[at]} | {row[0]} | {row[1]} |" for row in rows_of(tables[1]) if len(row) > at and row[at]]
    else:
        out += ["`polars_taiga.sklearn` has estimators for pipelines and searches: [scikit-learn](../sklearn.md).", ""]
    out += ["", "## Every name that is known", "", "| theirs | here |", "|---|---|"]
    out += [f"| {code(theirs)} | {code(ours)} |" for theirs, ours in renamed()]
    out += ["", "## Every value that is known", "", "| parameter | theirs | here |", "|---|---|---|"]
    out += [f"| `{name}` | {code(theirs)} | `{ours}` |" for name, theirs, ours in meant()]
    return "\n".join(out) + "\n"


def lay(out: Path, executed: bool) -> None:
    """Write the pages."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "examples").mkdir(parents=True)
    (out / "from").mkdir()
    (out / "reference").mkdir()
    for path in sources():
        name = place(path)
        assert name is not None
        (out / name).write_text(page(path))
    for path in (ROOT / "docs").rglob("*"):
        if path.is_file() and path.suffix != ".md":
            to = out / path.relative_to(ROOT / "docs")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
    examples = sorted((ROOT / "examples").glob("[0-9]*.py"))
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(printed, examples)) if executed else [""] * len(examples)
    index = ["# Examples", "", "Each runs by itself; continuous integration runs them all.", "", "| | |", "|---|---|"]
    for path, text in zip(examples, outputs, strict=True):
        lines = path.read_text()
        first = lines.split('"""')[1].strip().splitlines()[0]
        title = path.stem[3:].replace("_", " ").capitalize()
        shown = f"\n## What it prints\n\n```text\n{text.rstrip()}\n```\n" if text.strip() else ""
        (out / "examples" / f"{path.stem}.md").write_text(
            f"# {title}\n\n{first}\n\n```python\n{lines.rstrip()}\n```\n{shown}"
        )
        index.append(f"| [{title}]({path.stem}.md) | {first} |")
    (out / "examples" / "index.md").write_text("\n".join(index) + "\n")
    for peer in [*PEERS, "scikit-learn"]:
        (out / "from" / f"{peer.lower()}.md").write_text(coming_from(peer))
    # The public names by the module that has them.
    reference = {
        "expressions": ("Expressions", "polars_taiga"),
        "metrics": ("Metrics", "polars_taiga.metrics"),
        "plot": ("Pictures", "polars_taiga.plot"),
        "sklearn": ("Estimators", "polars_taiga.sklearn"),
        "ray": ("Ray", "polars_taiga.ray"),
        "namespaces": ("Namespaces", "polars_taiga.namespaces"),
    }
    for name, (title, module) in reference.items():
        (out / "reference" / f"{name}.md").write_text(f"# {title}\n\n::: {module}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "lay"])
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--executed", action="store_true")
    args = parser.parse_args()
    if args.what == "lay":
        lay(args.out, args.executed)
    found = faults()
    for fault in found:
        print(fault, file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
