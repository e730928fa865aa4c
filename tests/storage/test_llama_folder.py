"""A Llama's folder: a checkpoint with three files more, read back to the last byte, and no file of it changed unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

import byheart as bh
from byheart.errors import CorruptModel
from byheart.pipeline import load
from byheart.verify import weights_digest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> bh.Model:
    data = bh.Dataset.read(Path(__file__).parent / "fixtures" / "data" / "short.csv")
    return bh.compile(data, method="llama")


def test_a_llama_is_read_back_to_the_last_byte(model: bh.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "one")
    again = load(tmp_path / "one")
    assert again.network.spec == model.network.spec
    assert again.network.files() == model.network.files()
    assert weights_digest(again.network) == weights_digest(model.network)
    again.save(tmp_path / "two")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert {"config.json", "tokenizer.json", "model.safetensors", "model.json"} <= set(names)
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    again.save(tmp_path / "one")  # a folder of this family may be replaced


def test_a_changed_tokenizer_is_noticed(model: bh.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    file = tmp_path / "model" / "tokenizer.json"
    text = file.read_text(encoding="utf-8")
    changed = text.replace('"x"', '"q"', 1)
    assert changed != text
    file.write_text(changed, encoding="utf-8")
    with pytest.raises(CorruptModel):
        load(tmp_path / "model")
