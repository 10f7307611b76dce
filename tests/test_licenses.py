"""Every crate of the wheel has its licence in LICENSE-THIRD-PARTY, and one that deny.toml allows."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(name="licenses")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licenses", ROOT / ".ci" / "licenses.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_every_crate_is_listed_under_a_licence_that_is_allowed(licenses: ModuleType) -> None:
    assert licenses.problems() == []
    assert len(licenses.listed_in(licenses.FILE.read_text())) > 100


def test_what_is_missing_or_not_allowed_is_told(licenses: ModuleType, monkeypatch: Any, tmp_path: Path) -> None:
    name, version, _ = next(package for package in licenses.locked() if package[0] == "rayon")
    copy = tmp_path / "LICENSE-THIRD-PARTY"
    lines = licenses.FILE.read_text().splitlines(keepends=True)
    copy.write_text("".join(line for line in lines if not line.startswith(f"- {name} {version}:")))
    monkeypatch.setattr(licenses, "FILE", copy)
    assert [p for p in licenses.problems() if p.startswith(f"{name} {version} is missing")]
    licence = licenses.listed_in("".join(lines))[name, version]
    copy.write_text("".join(lines).replace(f"- {name} {version}: {licence}", f"- {name} {version}: GPL-3.0"))
    assert [p for p in licenses.problems() if "GPL-3.0" in p]
    copy.write_text("".join(lines).replace(f"- {name} {version}", f"- left-pad 1.0.0: MIT\n- {name} {version}", 1))
    assert [p for p in licenses.problems() if p.startswith("left-pad 1.0.0 stands")]
    copy.write_text("".join(lines).replace("libcudart_static.a", "it"))
    assert [p for p in licenses.problems() if "libcudart_static.a" in p]
    copy.unlink()
    assert licenses.problems()


@pytest.mark.parametrize(
    ("expression", "may"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("MIT OR GPL-3.0", True),
        ("MIT/GPL-3.0", True),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", True),
        ("(MIT OR Zlib) AND GPL-3.0", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT WITH LLVM-exception", False),
        ("", False),
    ],
)
def test_expressions_of_licences_are_understood(licenses: ModuleType, expression: str, may: bool) -> None:
    assert licenses.may_be_used(expression, licenses.allowed()) is may


def test_the_installed_wheel_has_the_texts() -> None:
    """An editable install has them beside the metadata too."""
    files = [file for file in metadata.files("polars-taiga") or [] if file.name == "LICENSE-THIRD-PARTY"]
    assert files
    assert all("libcudart_static.a" in file.read_text() for file in files)
