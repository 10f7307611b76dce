"""Checks what a release is made of; the workflow of releases and `make release-check` run it.

python .ci/release_check.py version [TAG]       the version stands in one place, and the tag is it
python .ci/release_check.py wheel WHEEL         names, contents, symbols: twine, abi3audit, auditwheel (on Linux)
python .ci/release_check.py sdist FILE [--build]  all that a wheel needs is in it; built alone, in an empty folder
python .ci/release_check.py try WHEEL [--polars oldest|newest] [--pythons]
                                                fits and predicts in new environments, of all Pythons that there are
python .ci/release_check.py sbom OUT            the crates of Cargo.lock as CycloneDX
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
NEWEST_GLIBC = (2, 28)
ZIG = "import ziglang; print(ziglang.__path__[0])"
TRY = """
import polars as pl, polars_taiga as tg
df = pl.DataFrame({"x": range(200), "c": ["a", "b"] * 100}).with_columns(y=pl.col("x") >= 100)
model = tg.Model(df.lazy().select(tg.fit_gbdt("y", "x", "c", rounds=20)).collect().item())
assert df.select(tg.score(model, "y", metric="accuracy")).item() == 1.0
assert df.select(tg.fit_forest("y", "x", trees=5)).item() is not None
assert df.group_by("c").agg(tg.min_max("x")).height == 2
import sys
print(f"Python {sys.version.split()[0]}, Polars {pl.__version__}, polars-taiga {tg.__version__}: fits and predicts")
"""


def run(*args: object, **kwargs: object) -> str:
    """Run a program; what it prints, or an end with that."""
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, **kwargs)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}:\n{done.stdout}{done.stderr}")
    return str(done.stdout + done.stderr)


def version() -> str:
    """The version, which stands in Cargo.toml alone."""
    cargo = (ROOT / "Cargo.toml").read_text()
    found = re.search(r'^\[workspace\.package\].*?^version = "([^"]+)"', cargo, re.S | re.M)
    if found is None:
        sys.exit("Cargo.toml: [workspace.package] has no version")
    for path in ROOT.glob("src/*/Cargo.toml"):
        if re.search(r'^version = "', path.read_text(), re.M):
            sys.exit(f"{path.relative_to(ROOT)}: a version of its own; version.workspace = true")
    if re.search(r"^version\b", (ROOT / "pyproject.toml").read_text(), re.M):
        sys.exit("pyproject.toml: a version of its own; dynamic = ['version']")
    return found[1]


def check_version(tag: str | None) -> None:
    own = version()
    if tag and tag != f"v{own}":
        sys.exit(f"the tag is {tag}, and Cargo.toml says {own}")
    if tag and f"## {own}" not in (ROOT / "CHANGELOG.md").read_text():
        sys.exit(f"CHANGELOG.md has no heading for {own}")
    print(f"version {own}")


def check_wheel(wheel: Path, newest_glibc: tuple[int, int]) -> None:
    if f"-{version()}-cp310-abi3-" not in wheel.name:
        sys.exit(f"{wheel.name}: not of version {version()} for the stable ABI of Python 3.10")
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("polars_taiga/py.typed", "polars_taiga/_taiga.pyi", "LICENSE-THIRD-PARTY"):
        if not any(name.endswith(wanted) for name in names):
            sys.exit(f"{wheel.name}: {wanted} is missing")
    strays = [n for n in names if not re.match(r"polars_taiga(-[^/]*\.dist-info|\.libs)?/", n) or "__pycache__" in n]
    if strays:
        sys.exit(f"{wheel.name}: {strays[:5]} do not belong there")
    print(run(sys.executable, "-m", "twine", "check", "--strict", wheel).strip())
    print(run(sys.executable, "-m", "abi3audit", "--strict", "--summary", wheel).strip())
    if sys.platform == "linux":
        shown = run(sys.executable, "-m", "auditwheel", "show", wheel)
        # The tag that it may have, by the symbols that it asks the system for.
        found = re.search(r'following platform tag:\s*"?manylinux_(\d+)_(\d+)', shown)
        if found is None or (int(found[1]), int(found[2])) > newest_glibc:
            sys.exit(f"{wheel.name}: not for manylinux {newest_glibc}:\n{shown}")
        print(f"auditwheel: manylinux_{found[1]}_{found[2]}")


def check_sdist(sdist: Path, build: bool) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    licences = ["LICENSE-MIT", "LICENSE-APACHE", "LICENSE-THIRD-PARTY"]
    wanted = [*licences, "Cargo.lock", "pyproject.toml", "PKG-INFO", "README.md"]
    wanted += ["python/polars_taiga/__init__.py", "src/core/Cargo.toml"]
    missing = [name for name in wanted if name not in names]
    strays = [name for name in names if name.endswith((".so", ".pyd")) or "__pycache__" in name]
    if missing or strays:
        sys.exit(f"{sdist.name}: missing: {missing}, not wanted: {strays[:5]}")
    print(f"{sdist.name}: {len(names)} files, {sdist.stat().st_size / 1e6:.1f} MB")
    print(run(sys.executable, "-m", "twine", "check", "--strict", sdist).strip())
    if not build:
        return
    with tempfile.TemporaryDirectory() as folder:
        # Nothing of the clone is seen: an own target folder, an environment of few variables.
        kept = ("PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "TMPDIR")
        env = {name: value for name, value in os.environ.items() if name in kept or name.startswith("PIP_")}
        env |= {"CARGO_TARGET_DIR": f"{folder}/target", "MATURIN_PEP517_ARGS": "--no-default-features"}
        if sys.platform == "linux":
            # Zig's linker takes the C library's oldest symbols, so that this machine gives a release's wheel too.
            env["CARGO_ZIGBUILD_ZIG_PATH"] = str(Path(run(sys.executable, "-c", ZIG).strip()) / "zig")
            env["MATURIN_PEP517_ARGS"] += f" --zig --compatibility manylinux_{NEWEST_GLIBC[0]}_{NEWEST_GLIBC[1]}"
        build_one = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, sdist.resolve()]
        run(*build_one, cwd=folder, env=env)
        wheel = next(Path(folder).glob("*.whl"))
        print(f"{wheel.name}: built from the sdist alone")
        check_wheel(wheel, NEWEST_GLIBC)
        check_try(wheel, "newest", all_pythons=False)


def check_try(wheel: Path, polars: str, all_pythons: bool) -> None:
    oldest = re.search(r"polars *>= *([0-9.]+)", (ROOT / "pyproject.toml").read_text())
    assert oldest is not None
    which = f"polars=={oldest[1]}.0" if polars == "oldest" else "polars"
    for number in PYTHONS if all_pythons else [""]:
        python = shutil.which(f"python{number}") if number else sys.executable
        if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
            print(f"Python {number}: not on this machine")
            continue
        with tempfile.TemporaryDirectory() as folder:
            run(python, "-m", "venv", folder)
            own = Path(folder) / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
            run(own, "-m", "pip", "install", "--quiet", which, wheel.resolve())
            print(run(own, "-c", TRY, cwd=folder).strip())


def write_sbom(out: Path) -> None:
    """The crates of Cargo.lock that the plugin is made of, with their checksums."""
    text = run(
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--manifest-path",
        ROOT / "src/plugin/Cargo.toml",
        cwd=ROOT,
    )
    data = json.loads(text[text.index("{") : text.rindex("}") + 1])
    lock = (ROOT / "Cargo.lock").read_text()
    sums = {
        (name, number): digest
        for name, number, digest in re.findall(
            r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([0-9a-f]{64})"', lock
        )
    }
    nodes = {node["id"]: [d["pkg"] for d in node["deps"]] for node in data["resolve"]["nodes"]}
    packages = {package["id"]: package for package in data["packages"]}
    root = next(p["id"] for p in data["packages"] if p["name"] == "polars-taiga")
    seen, left = set(), [root]
    while left:
        if (one := left.pop()) not in seen:
            seen.add(one)
            left += nodes[one]
    purl = {key: f"pkg:cargo/{packages[key]['name']}@{packages[key]['version']}" for key in seen}
    components = []
    for key in sorted(seen - {root}, key=purl.__getitem__):
        package = packages[key]
        part = {
            "type": "library",
            "bom-ref": purl[key],
            "name": package["name"],
            "version": package["version"],
            "purl": purl[key],
        }
        if package["license"]:
            part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if digest := sums.get((package["name"], package["version"])):
            part["hashes"] = [{"alg": "SHA-256", "content": digest}]
        components.append(part)
    own = {
        "type": "library",
        "bom-ref": purl[root],
        "name": "polars-taiga",
        "version": version(),
        "purl": f"pkg:pypi/polars-taiga@{version()}",
    }
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": [
            {"ref": purl[key], "dependsOn": sorted({purl[d] for d in nodes[key] if d in seen})}
            for key in sorted(seen, key=purl.__getitem__)
        ],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(bom, indent=1) + "\n")
    print(f"{out}: {len(components)} crates")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["version", "wheel", "sdist", "try", "sbom"])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--polars", choices=["oldest", "newest"], default="newest")
    parser.add_argument("--pythons", action="store_true")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--this-glibc", action="store_true", help="a wheel for this machine, not for a release")
    args = parser.parse_args()
    if args.what == "version":
        check_version(args.file)
        return
    if args.file is None:
        parser.error("name the file")
    file = Path(args.file)
    if args.what == "wheel":
        check_wheel(file, (2, 99) if args.this_glibc else NEWEST_GLIBC)
    elif args.what == "sdist":
        check_sdist(file, args.build)
    elif args.what == "try":
        check_try(file, args.polars, args.pythons)
    else:
        write_sbom(file)


if __name__ == "__main__":
    main()
