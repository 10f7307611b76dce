"""The licences of what is in the wheel: a file of all their texts, and a check of which they may be.

    python .ci/licenses.py write    makes LICENSE-THIRD-PARTY anew: after a change of Cargo.lock
    python .ci/licenses.py check    fails where a crate is missing there, or is what deny.toml does not allow

The wheel holds compiled Rust crates and, with GPUs, NVIDIA's CUDA runtime and code from CUB, Thrust and libcu++.
Their licences ask for their texts to go along. maturin puts files named LICENSE* beside pyproject.toml into every
wheel. Every crate of Cargo.lock that comes from a registry is listed, those that only tests or other platforms use
too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = Path(os.environ.get("VIRTUAL_ENV") or ROOT / ".venv")
FILE = ROOT / "LICENSE-THIRD-PARTY"
TEXTS = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)
END_OF_TERMS = "END OF TERMS AND CONDITIONS"
RULE = "=" * 100

HEAD = """\
Third-party software in polars-taiga's wheels
{rule}

polars-taiga itself is under the MIT license or the Apache License, Version 2.0, at your option (LICENSE-MIT,
LICENSE-APACHE). Its wheels contain compiled code of the crates that are listed here, each under the licence named
beside it; their texts follow, each once. Where a licence says "OR", the choice is the reader's. This file is made by
.ci/licenses.py.

Wheels with GPU support also contain software of NVIDIA Corporation:

- The CUDA Runtime, linked statically (libcudart_static.a), which is distributed under the NVIDIA Software License
  Agreement and the CUDA Supplement to it (the End User License Agreement at the end of this file), as one of the files
  that attachment A there lists as distributable. It is used by this software alone, and may not be taken out of it,
  changed or used by itself.
- Code compiled from the headers of CUB, Thrust and libcu++ (the CUDA Core Compute Libraries): Apache License, Version
  2.0, with the LLVM exception; parts of CUB under the 3-clause BSD license.

"""


def locked() -> list[tuple[str, str, str | None]]:
    """Name, version and source (None: this repository's) of every package of Cargo.lock."""
    packages = []
    for block in (ROOT / "Cargo.lock").read_text().split("[[package]]")[1:]:
        fields = dict(re.findall(r'^(name|version|source) = "(.*)"$', block, re.MULTILINE))
        packages.append((fields["name"], fields["version"], fields.get("source")))
    return packages


def listed_in(text: str) -> dict[tuple[str, str], str]:
    """The licence of every crate of the file, by name and version."""
    head = text.partition(f"\n{RULE}\nOf ")[0]
    rows = re.findall(r"^- (\S+) (\S+): (.+)$", head, re.MULTILINE)
    return {(name, version): licence for name, version, licence in rows}


def allowed() -> list[str]:
    """The licences that deny.toml allows."""
    found = re.search(r"^allow = \[(.*?)\]", (ROOT / "deny.toml").read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r'"([^"]+)"', found.group(1)) if found else []


def may_be_used(expression: str, allow: list[str]) -> bool:
    """Whether an SPDX expression can be met by licences of the list. ("/" is how old crates write OR.)"""
    tokens = re.findall(r"\(|\)|AND|OR|[A-Za-z0-9.+-]+(?: WITH [A-Za-z0-9.+-]+)?", expression.replace("/", " OR "))

    def either() -> bool:
        found = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            found = both() or found
        return found

    def both() -> bool:
        found = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            found = one() and found
        return found

    def one() -> bool:
        token = tokens.pop(0) if tokens else ""
        if token != "(":
            return token in allow
        found = either()
        if tokens:
            tokens.pop(0)
        return found

    return either() and not tokens


def problems() -> list[str]:
    """What is wrong with the file, the licences and the sources."""
    if not FILE.exists():
        return [f"there is no {FILE.name}: run `python .ci/licenses.py write`"]
    text = FILE.read_text()
    said, allow, found = listed_in(text), allowed(), []
    there = set()
    for name, version, source in locked():
        if source is None:
            continue
        there.add((name, version))
        if not source.startswith("registry+"):
            found.append(f"{name} {version} comes from {source}, which is no registry")
        licence = said.get((name, version))
        if licence is None:
            found.append(f"{name} {version} is missing in {FILE.name}: run `python .ci/licenses.py write`")
        elif not may_be_used(licence, allow):
            found.append(f"{name} {version} is under {licence}, which deny.toml does not allow")
    found += [
        f"{name} {version} stands in {FILE.name} and not in Cargo.lock"
        for name, version in said
        if (name, version) not in there
    ]
    wanted = [
        "End User License Agreement",
        "libcudart_static.a",
        "LLVM Exceptions to the Apache 2.0 License",
        "Duane Merrill",
    ]
    return found + [f"{FILE.name} does not hold {part!r}" for part in wanted if part not in text]


def texts_of(package: dict[str, Any], all_packages: list[dict[str, Any]]) -> list[str]:
    """The texts that come with a crate.

    Where none do: those of another crate of the same repository; else the text of the Apache License, which names
    nobody, where that is one to choose; else those of another crate of the same owner.
    """
    words = (package["repository"] or "").removesuffix("/").removesuffix(".git").split("/")
    if found := own_texts(package):
        return found
    for parts in (5, 4):  # https://host/owner/name, https://host/owner
        for other in all_packages:
            theirs = (other["repository"] or "").removesuffix("/").removesuffix(".git").split("/")
            if len(words) >= parts and theirs[:parts] == words[:parts] and (found := own_texts(other)):
                return found
        choices = re.split(r" OR |/", package["license"].strip("()"))
        if parts == 5 and "Apache-2.0" in (choice.strip() for choice in choices):
            return [(ROOT / "LICENSE-APACHE").read_text().strip()]
    return []


def own_texts(package: dict[str, Any]) -> list[str]:
    folder = Path(package["manifest_path"]).parent
    files = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and TEXTS.match(path.name) and path.suffix not in (".rs", ".html")
    )
    if folder.joinpath("LICENSES").is_dir():
        files += sorted(path for path in folder.joinpath("LICENSES").iterdir() if path.is_file())
    return [path.read_text(errors="replace").strip("\n\ufeff") for path in files]


def nvidia() -> str:
    """NVIDIA's agreement, as it comes with the runtime's package in the virtual environment."""
    found = sorted(PACKAGES.glob("lib/python*/site-packages/nvidia_cuda_runtime-*.dist-info/licenses/License.txt"))
    if not found:
        sys.exit("NVIDIA's agreement is not at hand: run `make kernels` first, which fetches nvcc into .venv")
    return "\n".join(line.rstrip() for line in found[-1].read_text(errors="replace").splitlines())


def cub() -> str:
    """The notice of CUB's headers."""
    header = sorted(PACKAGES.glob("lib/python*/site-packages/nvidia/*/include/cccl/cub/device/device_scan.cuh"))
    if not header:
        sys.exit("CUB's headers are not at hand: run `make kernels` first, which fetches nvcc into .venv")
    comment = header[-1].read_text().split("/**", 1)[1].split("*/", 1)[0]
    return "\n".join(line.strip().lstrip("*").removeprefix(" ").rstrip() for line in comment.splitlines()).strip()


def write() -> None:
    metadata = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version=1", "--all-features"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    packages = [p for p in json.loads(metadata.stdout)["packages"] if p["source"] is not None]
    packages.sort(key=lambda p: (p["name"], p["version"]))
    by_text: dict[str, tuple[str, list[str]]] = {}
    lines = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        texts = texts_of(package, packages)
        if not texts:
            sys.exit(
                f"{name} ({package['license']}) has no text of its licence, nor has another crate of its repository"
            )
        lines.append(f"- {name}: {package['license']}")
        for text in texts:
            key = " ".join(text.split()).lower()
            by_text.setdefault(key, (text, []))[1].append(name)
    out = [HEAD.format(rule=RULE), "\n".join(lines), "\n"]
    terms: set[str] = set()
    for text, names in sorted(by_text.values(), key=lambda entry: (-len(entry[1]), entry[1])):
        head, end, tail = text.partition(END_OF_TERMS)
        key = re.sub(r"[^a-z]", "", head.lower().replace("https", "http"))
        if end and key in terms:
            text = f"The terms of the Apache License, Version 2.0, as above.\n{tail}"
        terms.add(key)
        out.append(
            f"\n{RULE}\nOf {', '.join(names)}\n{RULE}\n\n"
            + "\n".join(line.rstrip() for line in text.splitlines())
            + "\n"
        )
    out.append(f"\n{RULE}\nOf CUB's headers, in part\n{RULE}\n\n{cub()}\n")
    out.append(f"\n{RULE}\nOf NVIDIA's CUDA Runtime\n{RULE}\n\n{nvidia()}\n")
    FILE.write_text("".join(out))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["check"]:
            found = problems()
            print("\n".join(found) or f"{FILE.name}: every crate of Cargo.lock, with licences that deny.toml allows")
            sys.exit(bool(found))
        case _:
            sys.exit(__doc__)
