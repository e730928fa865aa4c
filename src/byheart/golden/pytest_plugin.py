"""The plugin for `pytest --golden DIR`, where DIR is a folder that `byheart golden make` wrote.

A test with the argument `golden_case` runs once for each case whose answer cannot be changed by rounding in the chosen number type.
Cases with long texts are left out unless --golden-long is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from byheart.records.vocabulary import NumberType

if TYPE_CHECKING:
    from byheart.golden.case import Case

CASES = pytest.StashKey["list[Case]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --golden, --golden-number-type and --golden-long."""
    group = parser.getgroup("golden", "checkpoints whose correct answers are known")
    group.addoption("--golden", metavar="DIR", help="a folder that `byheart golden make` wrote")
    group.addoption(
        "--golden-number-type",
        default="float32",
        choices=get_args(NumberType),
        help="the number type of your engine: float32, float16 or bfloat16",
    )
    group.addoption(
        "--golden-long", action="store_true", help="also run the cases of 4,000 and 32,000 tokens"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the cases, and compare the files of the folder with the digests in its family.json."""
    found: list[Case] = []
    if config.getoption("--golden") is not None:
        from byheart.errors import ByheartError

        try:
            found = _read_cases(config)
        except ByheartError as error:
            raise pytest.UsageError(str(error)) from error
    config.stash[CASES] = found


def _read_cases(config: pytest.Config) -> list[Case]:
    """Return the cases that can be checked in the number type that --golden-number-type names. Without --golden-long, leave out
    long texts.
    """
    from byheart.golden.case import cases, shapes
    from byheart.golden.digests import require_intact
    from byheart.golden.engines.engine import LONG_TEXT

    folder = Path(config.getoption("--golden"))
    require_intact(folder, shapes(folder))
    kind, has_long = config.getoption("--golden-number-type"), config.getoption("--golden-long")
    return [
        case for case in cases(folder) if case.holds_for(kind) and (has_long or len(case.prompt) <= LONG_TEXT)
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the argument `golden_case` once for each case. Without --golden, the test is skipped."""
    if "golden_case" in metafunc.fixturenames:
        found = metafunc.config.stash[CASES]
        metafunc.parametrize("golden_case", found, ids=[case.name for case in found])
