"""Every mistake that `make mutants` puts into the code has a place there, so that the run does not end half-way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.mistakes import MUTANTS, Mutant
from tests.attacks.removed_guards import REMOVED_GUARDS

SOURCE = Path(__file__).resolve().parents[2] / "src" / "byheart"


@pytest.mark.parametrize("mutant", [*MUTANTS, *REMOVED_GUARDS], ids=lambda mutant: mutant.name)
def test_the_old_text_stands_there_once(mutant: Mutant) -> None:
    assert (SOURCE / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
