from __future__ import annotations

import pytest

from byheart.program.fewest import find_fewest


@pytest.mark.parametrize(
    ("low", "high", "most"), [(0, 1, 64), (3, 5, 64), (20, 40, 64), (30, 31, 64), (5, 13, 13)]
)
@pytest.mark.parametrize("least", [1, 4, 13, 33])
def test_a_search_ends_where_one_fewer_fails(low: int, high: int, most: int, least: int) -> None:
    fitted: list[int] = []

    def fit(size: int) -> int:
        fitted.append(size)
        return size

    found = find_fewest(fit, lambda size: size >= least, high, low, most=most)
    if least > most:
        assert found is None
        return
    assert found is not None
    assert found.size == found.fit == least
    assert found.narrower == (least - 1 or None)
    assert list(found.tried) == fitted  # each once, in the order they were made


def test_where_all_are_not_enough_nothing_is_found() -> None:
    assert find_fewest(lambda size: size, lambda size: False, 3, most=3) is None
