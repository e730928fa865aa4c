"""The plugin for `pytest --golden DIR`, where DIR is a folder that `byheart golden make` wrote.

A test with the argument `golden_case` runs once for each case whose answer cannot be changed by rounding in the chosen number type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --golden and --golden-number-type."""
    group = parser.getgroup("golden", "checkpoints whose correct answers are known")
    group.addoption("--golden", metavar="DIR", help="a folder that `byheart golden make` wrote")
    group.addoption(
        "--golden-number-type",
        default="float32",
        choices=("float32", "float16", "bfloat16"),
        help="the number type of your engine: float32, float16 or bfloat16",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the argument `golden_case` once for each case that can be checked in the number type
    that --golden-number-type names. Without --golden, the test is skipped.
    """
    if "golden_case" not in metafunc.fixturenames:
        return
    folder = metafunc.config.getoption("--golden")
    found: list[Any] = []
    if folder is not None:
        from byheart.golden.case import cases

        kind = metafunc.config.getoption("--golden-number-type")
        found = [case for case in cases(folder) if case.holds_for(kind)]
    metafunc.parametrize("golden_case", found, ids=[case.name for case in found])
