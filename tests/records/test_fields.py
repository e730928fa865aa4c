"""A JSON object that is read field by field: every refusal, at any depth, ends in the advice that its reader gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from byheart.errors import CorruptModel
from byheart.records.fields import Fields

REMEDY = "Ask for another copy."


@pytest.mark.parametrize(
    "raw", [b"not json", b"[]", b'{"size": 3}', b'{"size": {"rows": "two"}}', b'{"size": {}}']
)
def test_every_refusal_ends_in_the_advice(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "about.json"
    file.write_bytes(raw)
    for read in (lambda: Fields.read(file, REMEDY), lambda: Fields.parse(raw, file, REMEDY)):
        with pytest.raises(CorruptModel) as caught:
            read().child("size").integer("rows")
        assert caught.value.facts["file"] == str(file)
        assert str(caught.value).endswith(REMEDY)


def test_an_object_is_read_from_a_file_and_from_bytes(tmp_path: Path) -> None:
    file, values = tmp_path / "about.json", {"rows": 2}
    file.write_text(json.dumps(values), encoding="utf-8")
    assert Fields.read(file).values == Fields.parse(file.read_bytes(), file).values == values
