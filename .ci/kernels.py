"""Checks that kernels and the host's names of them agree.

python .ci/kernels.py         fails where the host asks for a kernel that its image has not, or nobody asks for a kernel
python .ci/kernels.py graph   prints each image, its kernels and the files that ask for them

An image is a `.cu` of IMAGES in kernels/build.rs with all that it includes. The host asks for kernels in src/cuda by
`kernel(IMAGE, "name")`, through macros that complete a name (`kernel_of!`, `integer_kernel!`, `named!`, `kernels!`), or
by a constant that holds one; tests ask for those of numerics.cu.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS, HOST = ROOT / "kernels", ROOT / "src/cuda"

GLOBAL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\s*\(")
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)((?:[^\n]*\\\n)*[^\n]*)", re.M)
STRING = re.compile(r'"(\w+)"')


def without_comments(text: str) -> str:
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda m: m.group(1) or " ", text, flags=re.S)


def source(path: Path, seen: set[Path]) -> str:
    """A file of kernels with those that it includes, each once."""
    path = path.resolve()
    if path in seen or not path.is_file():
        return ""
    seen.add(path)

    def include(match: re.Match[str]) -> str:
        return source(path.parent / match.group(1), seen)

    return re.sub(r'^[ \t]*#[ \t]*include "([^"]+)"', include, without_comments(path.read_text()), flags=re.M)


def arguments(text: str, at: int) -> tuple[list[str], int]:
    """The arguments of a macro from behind its parenthesis, and where they end."""
    found: list[str] = []
    depth, start = 0, at
    for i in range(at, len(text)):
        if text[i] in "({[":
            depth += 1
        elif text[i] in ")}]":
            if depth == 0:
                return [*found, text[start:i].strip()], i + 1
            depth -= 1
        elif text[i] == "," and depth == 0:
            found.append(text[start:i].strip())
            start = i + 1
    return found, len(text)


def kernels_of(text: str) -> set[str]:
    """The names of the `__global__` functions of a source, macros that define some expanded."""
    macros = {m.group(1): ([p.strip() for p in m.group(2).split(",")], m.group(3)) for m in DEFINE.finditer(text)}
    text = DEFINE.sub("", text)

    def expand(code: str) -> set[str]:
        names = {name for name in GLOBAL.findall(code) if "##" not in name}
        for call in re.finditer(r"\b(\w+)\(", code):
            if call.group(1) not in macros:
                continue
            parameters, body = macros[call.group(1)]
            if "__global__" not in body and not any(f"{other}(" in body for other in macros):
                continue
            given, _ = arguments(code, call.end())
            values = dict(zip(parameters, given, strict=False))
            body = re.sub(r"\b\w+\b", lambda word, values=values: values.get(word.group(0), word.group(0)), body)
            names |= expand(re.sub(r"\s*##\s*", "", body.replace("\\\n", "\n")))
        return names

    return expand(text)


def images() -> dict[str, set[str]]:
    """The kernels of each image, by its name."""
    listed = re.search(r"const IMAGES: [^=]*=\s*\[(.*?)\];", (KERNELS / "build.rs").read_text(), re.S)
    files = re.findall(r'"([^"]+)\.cu"', listed.group(1)) if listed else []
    return {name: kernels_of(source(KERNELS / f"{name}.cu", set())) for name in files}


def completed(text: str, suffixes: dict[str, list[str]]) -> list[str]:
    """The names that macros make: a prefix with each of their own endings, or with those that stand there."""
    names = []
    for call in re.finditer(r"\b(kernel_of|named|integer_kernel)!\(", text):
        given, _ = arguments(text, call.end())
        if not given or "$" in given[0]:
            continue
        own = [ending for pair in given[2:] for ending in STRING.findall(pair)] or suffixes[call.group(1)]
        names += [f"{given[0].strip(chr(34))}_{ending.lstrip('_')}" for ending in own]
    return names


def requests() -> list[tuple[Path, set[str], str]]:
    """Who asks for which kernel: a file, the images that it names, and the kernel."""
    texts = {path: without_comments(path.read_text()) for path in sorted(HOST.rglob("*.rs"))}
    everything = "\n".join(texts.values())
    constants = dict(re.findall(r'const (\w+): Image = Image \{ name: "([^"]+)"', everything))
    kernel_of = re.search(r"\(\$kind:literal, \$form:expr\) => \{(.*?)\};", everything, re.S)
    named = re.search(r"macro_rules! named \{(.*?)^\}", everything, re.S | re.M)
    integers = re.search(r"macro_rules! integer_kernel \{(.*?)^\}", everything, re.S | re.M)
    suffixes = {
        "integer_kernel": STRING.findall(integers.group(1)) if integers else [],
        "kernel_of": STRING.findall(kernel_of.group(1)) if kernel_of else [],
        "named": STRING.findall(named.group(1)) if named else [],
    }
    found = []
    for path, text in texts.items():
        own = {constants[name] for name in re.findall(r"\bkernel\(\s*(\w+),", text) if name in constants}
        for image, name in re.findall(r'\bkernel\(\s*(\w+),\s*"(\w+)"', text):
            found.append((path, {constants[image]}, name))
        found += [(path, own, name) for name in re.findall(r'\bkernel\(\s*"(\w+)"', text)]
        found += [(path, own, name) for name in completed(text, suffixes)]
        for listed in re.findall(r"^kernels!\((.*?)\);", text, re.S | re.M):
            found += [(path, own, f"tree_{name}") for name in re.findall(r"\w+", listed)]
        # Names in arrays and constants: of an image whose kernels have its name in front, or after `GATHER`.
        prefixes = tuple(f"{image}_" for image in own if image in ("forest", "linear"))
        if prefixes:
            found += [(path, own, name) for name in STRING.findall(text) if name.startswith(prefixes)]
        found += [(path, own, name) for name in re.findall(r'const GATHER: &\'static str = "(\w+)"', text)]
    for path in sorted((ROOT / "src").rglob("*.rs")):
        text = path.read_text()
        if path.is_relative_to(HOST) or "NUMERICS" not in text:
            continue
        numerics, strings = images()["numerics"], STRING.findall(without_comments(text))
        asked = {name for string in strings for name in (string, f"map_{string}", f"loss_{string}") if name in numerics}
        found += [(path, {"numerics"}, name) for name in sorted(asked)]
    return found


def main() -> int:
    kernels, asked = images(), requests()
    faults: list[str] = []
    users: dict[tuple[str, str], set[str]] = {}
    for path, of_images, name in asked:
        holders = [image for image in of_images if name in kernels.get(image, ())]
        if not holders:
            faults.append(
                f"{path.relative_to(ROOT)}: `{name}` is no kernel of {', '.join(sorted(of_images)) or 'any image'}"
            )
        for image in holders:
            users.setdefault((image, name), set()).add(str(path.relative_to(ROOT)))
    for image, names in kernels.items():
        faults += [
            f"kernels/{image}.cu: nobody asks for `{name}`" for name in sorted(names) if (image, name) not in users
        ]
    if sys.argv[1:] == ["graph"]:
        for image, names in kernels.items():
            print(f"{image}: {len(names)} kernels")
            for name in sorted(names):
                print(f"  {name}: {', '.join(sorted(users.get((image, name), {'-'})))}")
    for fault in dict.fromkeys(faults):
        print(fault, file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
