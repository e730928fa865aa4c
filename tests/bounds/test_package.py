"""The package keeps its promises to the rest: what it imports, and that its names are real."""

from __future__ import annotations

import subprocess
import sys

import byheart.bounds


def test_every_public_name_is_there_and_documented() -> None:
    for name in byheart.bounds.__all__:
        item = getattr(byheart.bounds, name)
        assert name == "PUBLISHED_LAWS" or item.__doc__, name


def test_no_heavy_or_later_package_is_imported() -> None:
    code = (
        "import sys, byheart.bounds; "
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'numba') or "
        "m.startswith(('byheart.construct', 'byheart.verify', 'byheart.cli'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
