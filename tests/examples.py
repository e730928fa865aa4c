"""How many examples a property is tried on: a tenth by default, all of them in `make test-all`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

THOROUGH = bool(os.environ.get("BYHEART_THOROUGH"))
FEWEST = 10


def examples(number: int, **more: Any) -> settings:
    """Try a property on `number` examples, or in the default run on a tenth of them and at least `FEWEST`."""
    return settings(max_examples=number if THOROUGH else min(number, max(FEWEST, number // 10)), **more)
