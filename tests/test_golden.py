"""The bytes of fits of every learner, policy, loss, sampler and categorical method are those that are kept.

What they are is in tests/golden/cases.py. A change that means to move them writes them anew, by
`python -m tests.golden --write`, and says which moved and why.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.golden.digests import digest, kept


def test_every_fit_gives_the_bytes_that_are_kept() -> None:
    known, found = kept(), digest()
    assert len(found) >= 350
    assert {name: (known.get(name), value) for name, value in found.items() if known.get(name) != value} == {}
    assert set(known) == set(found)
