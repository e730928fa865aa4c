"""What lies exactly at a limit is taken; one more is refused."""

from __future__ import annotations

import pytest

from byheart.errors import MalformedFile
from byheart.records.json_file import MAX_CONTAINERS, MAX_DEPTH, parse_json


@pytest.mark.parametrize(("n_containers", "is_taken"), [(MAX_CONTAINERS, True), (MAX_CONTAINERS + 1, False)])
def test_as_many_lists_and_objects_as_are_allowed(n_containers: int, is_taken: bool) -> None:
    raw = b"[" + b",".join([b"[]"] * (n_containers - 1)) + b"]"
    if is_taken:
        assert len(parse_json(raw, "here")) == n_containers - 1
    else:
        with pytest.raises(MalformedFile):
            parse_json(raw, "here")


def test_as_deep_as_is_allowed() -> None:
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "here")


def test_only_a_file_that_ends_too_early_may_be_cut_short() -> None:
    problems = []
    for raw in (b'{"a": 1', b'{"a" 1}'):
        with pytest.raises(MalformedFile) as caught:
            parse_json(raw, "here")
        problems.append(str(caught.value.facts["problem"]))
    assert ["cut short" in problem for problem in problems] == [True, False]
