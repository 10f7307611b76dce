"""Compares fits with the bytes that are kept: `python -m tests.golden`, and with `--write` keeps those of this build.

On a GPU: `TAIGA_GOLDEN_DEVICE=cuda python -m tests.golden`.

A model's bytes may change from one version to the next, but never by accident: whoever writes them anew says in the
commit which fits moved and why.
"""

from __future__ import annotations

import argparse
import sys

from tests.golden.digests import KEPT, digest, kept, write


def main() -> int:
    """Compare or write; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the bytes of this build")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    args = parser.parse_args()
    known, found = kept(), digest(args.only)
    if args.write:
        write({**known, **found} if args.only else found)
    moved = [name for name, value in found.items() if known.get(name) != value]
    for name in moved:
        print(f"{name}: {known.get(name, 'new')} -> {found[name]}")
    print(f"{len(found) - len(moved)} of {len(found)} equal those of {KEPT.name}")
    return int(bool(moved) and not args.write)


if __name__ == "__main__":
    sys.exit(main())
