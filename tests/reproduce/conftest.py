from __future__ import annotations

import pytest

from byheart.measure.text_samples import Samples
from tests.reproduce.planted import small_samples


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Random words, enough for every figure at the paper's scale."""
    return small_samples(tmp_path_factory.mktemp("samples"))
