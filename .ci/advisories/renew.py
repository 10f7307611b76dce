"""Packs RustSec's database of advisories for `make lint`.

    python .ci/advisories/renew.py CHECKOUT

CHECKOUT: a working tree of the database's repository. The same tree gives the same bytes.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("advisory-db.tar.xz")
PARTS = ("crates", "rust", "LICENSE.txt")


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove from an entry who made it and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


def main() -> None:
    """Write the archive."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checkout = Path(sys.argv[1])
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for part in PARTS:
            archive.add(checkout / part, part, filter=anonymous)


if __name__ == "__main__":
    main()
