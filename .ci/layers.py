"""Checks that imports between the engine's modules point down only.

python .ci/layers.py         fails on an import that points up, naming the file and the line
python .ci/layers.py graph   prints which module imports which

A crate is kept from the ones above it by Cargo. Inside a crate, modules are listed here from the lowest to the
highest; one may import itself and those before it. Modules that stand in one list of a list do not know each other.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LAYERS: dict[str, list[list[str]]] = {
    "src/core": [
        ["error"],
        ["parallel"],
        ["numerics"],
        ["memory"],
        ["pages"],
        ["spill"],
        ["device", "collective"],
        ["params"],
        ["column"],
        ["metadata", "receipt"],
        ["provenance"],
        ["envelope"],
        ["quantize"],
        ["stats"],
        ["encoding"],
        ["column_steps"],
        ["dataset"],
        ["symbolic"],
        ["objective"],
        ["metrics"],
        ["losses"],
        ["tree"],
        ["shap"],
        ["model"],
        ["learners"],
        ["import"],
    ],
    "src/core/learners": [["boosting", "forest", "linear"], ["params_tests"]],
    "src/cpu": [["columns", "forest", "linear", "trees"]],
    "src/cuda": [["runtime"], ["columns"], ["forest", "linear", "trees"], ["predict"]],
    "src/engine": [["device"], ["learners"]],
}

PATH = re.compile(r"(?<![\w:$])(?:crate|super|self)(?:::\w+)+")
USE = re.compile(r"(?<![\w:$])((?:crate|super|self)(?:::\w+)*)::\{([^;]*)\}")


def without_comments(text: str) -> str:
    """Blanks comments and strings, so that lines keep their numbers."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def module_of(path: Path, crate: Path) -> list[str]:
    parts = list(path.relative_to(crate).with_suffix("").parts)
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def absolute(path: list[str], here: list[str]) -> list[str]:
    """Where a path that begins with `crate`, `super` or `self` leads from the module `here`."""
    base, rest = (here, path) if path[0] != "crate" else ([], path[1:])
    while rest and rest[0] in ("super", "self"):
        base, rest = (base[:-1] if rest[0] == "super" else base), rest[1:]
    return [*base, *rest]


def imports(path: Path, crate: Path) -> list[tuple[int, list[str]]]:
    """The modules that a file names, with their lines."""
    text, here = without_comments(path.read_text()), module_of(path, crate)
    found = []
    for match in PATH.finditer(text):
        found.append((text.count("\n", 0, match.start()) + 1, absolute(match.group(0).split("::"), here)))
    for match in USE.finditer(text):
        line, base = text.count("\n", 0, match.start()) + 1, match.group(1).split("::")
        found += [(line, absolute([*base, name], here)) for name in re.findall(r"(?:^|,)\s*(\w+)", match.group(2))]
    return found


def check(folder: str, layers: list[list[str]]) -> tuple[list[str], set[tuple[str, str]]]:
    """The imports of a folder's modules that do not point down, and all of them."""
    crate = ROOT / next(c for c in ("src/core", "src/cpu", "src/cuda", "src/engine") if folder.startswith(c))
    inside = list(Path(folder).relative_to(crate.relative_to(ROOT)).parts)
    rank = {name: i for i, layer in enumerate(layers) for name in layer}
    faults, edges = [], set()
    for path in sorted((ROOT / folder).rglob("*.rs")):
        own = module_of(path, crate)
        if own[: len(inside)] != inside or len(own) <= len(inside) or own[len(inside)] in ("tests", "benches"):
            continue
        name = own[len(inside)]
        if name not in rank:
            faults.append(f"{path.relative_to(ROOT)}: the module `{name}` stands in no layer of .ci/layers.py")
            continue
        for line, target in imports(path, crate):
            if target[: len(inside)] != inside or len(target) <= len(inside):
                continue
            other = target[len(inside)]
            if other == name or other not in rank:
                continue
            edges.add((name, other))
            if rank[other] >= rank[name]:
                faults.append(f"{path.relative_to(ROOT)}:{line}: `{name}` imports `{other}`, which is not below it")
    return faults, edges


def main() -> int:
    faults = []
    for folder, layers in LAYERS.items():
        found, edges = check(folder, layers)
        faults += found
        if sys.argv[1:] == ["graph"]:
            for name in [name for layer in layers for name in layer]:
                below = sorted({b for a, b in edges if a == name})
                print(f"{folder}/{name}: {', '.join(below) or '-'}")
    for fault in dict.fromkeys(faults):
        print(fault, file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
