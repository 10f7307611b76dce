"""The digests of the kept fits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.golden.cases import all_cases

KEPT = Path(__file__).with_name("digests.json")


def kept() -> dict[str, str]:
    """The digest of each case, as the file has them."""
    found: dict[str, str] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def digest(only: str = "") -> dict[str, str]:
    """The digests of this build for the cases whose name contains `only`."""
    cases = all_cases().items()
    return {name: hashlib.sha256(fit()).hexdigest()[:20] for name, fit in cases if only in name}


def write(digests: dict[str, str]) -> None:
    """Keep these digests."""
    KEPT.write_text(json.dumps(dict(sorted(digests.items())), indent=1) + "\n")
