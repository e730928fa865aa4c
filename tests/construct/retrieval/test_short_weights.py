"""Weights stored as int8 or bfloat16: every label right in float32, sizes told to the last bit, files that come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from byheart import compile as compile_data
from byheart import load
from byheart.construct.registry import get
from byheart.construct.retrieval import key_hash
from byheart.construct.retrieval.dual_table import split_limbs
from byheart.construct.retrieval.size import RetrievalOptions, layout_of
from byheart.data.dataset import Dataset
from byheart.data.generators import grid_vectors, random_tokens, uniform_vectors
from byheart.data.shape import DataShape
from byheart.errors import AssumptionViolated, CorruptModel
from byheart.network.exact.dyadic import Dyadic
from byheart.network.memoriser import UNKNOWN
from byheart.network.size import size_of_network
from byheart.network.transformer.architecture import Transformer
from byheart.network.transformer.interpreter import interpret
from byheart.network.transformer.module import run_module, to_module
from byheart.network.transformer.stored_module import to_stored_module
from byheart.program.construction import Construction
from byheart.program.short_numbers import short_at_least, short_at_most, short_parts, split_column
from tests.construct.retrieval.layouts import LAYOUTS, memorise

SHORT = ("int8", "bfloat16")
DATA = {
    "few tokens": random_tokens(30, 3, 12, seed=0),
    "tokens": random_tokens(1000, 8, 300, seed=1),
    "ragged tokens": random_tokens(400, 5, 40, seed=2, min_len=2),
    "grid": grid_vectors(1500, seed=3),
    "negative grid": Dataset.from_arrays(
        grid_vectors(300, 3, 2, 5, levels=9, seed=4).inputs.values - 500.0, np.arange(300) % 5
    ),
    "set": random_tokens(300, 4, 30, seed=5, task="set"),
    "many classes": grid_vectors(600, n_classes=500, seed=6),
}
QUICK = {
    "int8": ("tokens", "ragged tokens", "grid", "negative grid"),
    "bfloat16": ("tokens", "grid"),
}


def _build(data: Dataset, precision: str, **options: object) -> Construction:
    return memorise(data, {"precision": precision, **options}, 0)


def _outputs(built: Construction, data: Dataset) -> np.ndarray:
    return run_module(built.memoriser.network, built.memoriser.encode(data.inputs), last_only=True)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(
            name,
            precision,
            marks=[] if name in QUICK[precision] else [pytest.mark.slow],
        )
        for name in DATA
        for precision in SHORT
    ],
)
def test_every_label_is_right_and_every_size_was_told(name: str, precision: str) -> None:
    data = DATA[name]
    built = _build(data, precision)
    network = built.memoriser.network
    assert network.precision == precision
    assert (_outputs(built, data) == data.labels + 1).all()
    size = size_of_network(network)
    if built.notes["hash"] == "usual hash" and "negative" not in name:
        told = get("retrieval").estimate(DataShape.of(data), {"precision": precision})
        assert (told.parameters_dense, told.total_bits, told.depth, told.width) == (
            size.parameters_dense,
            size.total_bits,
            size.depth,
            size.width,
        )


@pytest.mark.parametrize("stored", [None, *SHORT])
def test_a_layout_that_has_numbers_for_its_tokens_can_be_drawn(stored: str | None) -> None:
    layout = replace(LAYOUTS["dual table, narrow"], stored=stored)
    none = np.zeros(0, dtype=np.int64)
    accepted = []
    for n_rows in range(layout.n_entering_values * 49 // 100, layout.n_entering_values * 51 // 100):
        filled = replace(layout, entrance=replace(layout.entrance, n_rows=n_rows))
        if filled.has_numbers_for_tokens:
            accepted.append(filled)
    hashed = key_hash.draw(accepted[-1], none, none, np.random.default_rng(0))
    assert len(np.unique(hashed.tokens[:, 0])) == accepted[-1].entrance.n_rows


@pytest.mark.parametrize("offset", [9001, 1 << 15])
def test_vectors_far_from_zero_enter_a_bfloat16_network(offset: int) -> None:
    """The extra token is then far above the data, and the number that makes a field non-negative needs many bits."""
    rng = np.random.default_rng(0)
    vectors = rng.integers(0, 11, size=(300, 4, 3)) + float(offset)
    data = Dataset.from_arrays(vectors, rng.integers(0, 4, size=300), ordered=False)
    built = _build(data, "bfloat16")
    assert (_outputs(built, data) == data.labels + 1).all()


@pytest.mark.parametrize("n_bits", [1, 7, *(pytest.param(n, marks=pytest.mark.slow) for n in (8, 15)), 16])
def test_words_of_any_length_are_read(n_bits: int) -> None:
    """With 7 and 15 bits what masks a limb is what its sign takes off, and nothing is left to add to the others."""
    data = grid_vectors(150, 4, 2, 1 << n_bits, seed=n_bits)
    built = _build(data, "int8")
    assert built.notes["field_bits"] == n_bits
    assert (_outputs(built, data) == data.labels + 1).all()


@pytest.mark.parametrize("precision", SHORT)
def test_floats_round_nowhere(precision: str) -> None:
    """Fractions, by code that shares nothing with PyTorch, give the same numbers."""
    data = DATA["grid"]
    built = _build(data, precision)
    encoded = built.memoriser.encode(data.inputs)[:5]
    exact = [interpret(built.memoriser.network, sequence)[-1][0] for sequence in encoded]
    assert exact == [int(label) + 1 for label in data.labels[:5]]


@pytest.mark.parametrize("precision", SHORT)
def test_unknown_inputs_are_turned_away(precision: str) -> None:
    data = random_tokens(1000, 6, 100, 16, seed=7)
    built = _build(data, precision, reject_bits=8)
    assert (_outputs(built, data) == data.labels + 1).all()
    unknown = random_tokens(4000, 6, 100, 16, seed=8)
    answers = built.memoriser.answer(built.memoriser.encode(unknown.inputs), backend="module").ravel()
    assert (answers >= 0).sum() < 4000 * 2.0**-8 * 4


@pytest.mark.parametrize("precision", ["int8", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["ragged tokens", pytest.param("grid", marks=pytest.mark.slow)])
def test_labels_too_long_for_a_word_have_a_table_for_each_part(name: str, precision: str) -> None:
    """Sizes are told to the last bit, fractions give the same numbers, and 16 reject bits turn unknown inputs away."""
    data = DATA[name]
    built = _build(data, precision, reject_bits=16)
    network, notes = built.memoriser.network, built.notes
    assert (notes["layout"], len(notes["tables"])) == ("table for each part", notes["parts"])
    assert (_outputs(built, data) == data.labels + 1).all()
    encoded = built.memoriser.encode(data.inputs)
    assert interpret(network, encoded[0])[-1][0] == data.labels[0] + 1
    size = size_of_network(network)
    if notes["hash"] == "usual hash":
        told = get("retrieval").estimate(DataShape.of(data), {"precision": precision, "reject_bits": 16})
        assert (told.parameters_dense, told.total_bits, told.depth, told.width) == (
            size.parameters_dense,
            size.total_bits,
            size.depth,
            size.width,
        )
    unknown = encoded.copy()
    unknown[:, -1] = np.roll(unknown[:, -1], 1, axis=0)
    known = {row.tobytes() for row in encoded}
    is_unknown = np.array([row.tobytes() not in known for row in unknown])
    answers = built.memoriser.answer(unknown, backend="module").ravel()[is_unknown]
    assert len(answers) > 100
    assert (answers == UNKNOWN).all()  # 2^-16 of them would be answered


def test_labels_of_more_bits_than_two_weights() -> None:
    data = random_tokens(60, 4, 30, 1 << 17, seed=10)
    built = _build(data, "int8")
    assert built.notes["parts"] > 1
    assert (_outputs(built, data) == data.labels + 1).all()


def test_a_limb_may_hold_nothing() -> None:
    """With few keys, two limbs for each word are smaller: their registers are needed when the sequence enters."""
    data = random_tokens(10, 3, 5, 10, seed=0)
    built = _build(data, "bfloat16")
    layout = layout_of(DataShape.of(data), RetrievalOptions(precision="bfloat16", reject_bits=0))
    assert (layout.n_limbs, layout.word_bits) == (2, built.notes["word_bits"]) == (2, 4)
    assert (_outputs(built, data) == data.labels + 1).all()


def test_parts_have_shards() -> None:
    data = random_tokens(900, 6, 200, seed=11)
    built = _build(data, "int8", shards=2, reject_bits=16)
    assert built.notes["layout"] == "table for each part"
    assert (_outputs(built, data) == data.labels + 1).all()


def test_shards_share_one_network() -> None:
    data = random_tokens(1500, 8, 200, seed=9)
    built = _build(data, "int8", shards=3)
    assert (_outputs(built, data) == data.labels + 1).all()


@pytest.mark.parametrize("precision", SHORT)
def test_what_short_weights_cannot_hold_is_refused(precision: str) -> None:
    for data in (random_tokens(20, 3, 9, seed=0, task="seq-to-seq"), uniform_vectors(20, 3, 2, seed=0)):
        with pytest.raises(AssumptionViolated):
            _build(data, precision)


@pytest.mark.parametrize(("precision", "table"), [("int8", "I8"), ("bfloat16", "BF16")])
def test_a_folder_holds_short_tensors_and_comes_back(precision: str, table: str, tmp_path: Path) -> None:
    data = DATA["tokens"]
    model = compile_data(data, method="retrieval", precision=precision, reject_bits=0)
    model.save(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    with safe_open(weights, "np") as file:
        kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 - not a mapping
    widths = [getattr(layer, "hidden_width", 0) for layer in model.network.layers]
    largest = int(np.argmax(widths))
    assert kinds[f"layers.{largest}.w1"] == kinds[f"layers.{largest}.w2"] == table
    size = size_of_network(model.network)
    n_header = 8 + int.from_bytes(weights.read_bytes()[:8], "little")
    assert 8 * (weights.stat().st_size - n_header) == size.total_bits
    again = load(tmp_path / "model")
    assert again.precision == precision
    pairs = zip(model.network.parameters(), again.network.parameters(), strict=True)
    assert all((mine[1] == other[1]).all() for mine, other in pairs)
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == weights.read_bytes()


def test_a_file_with_a_tensor_of_another_type_is_refused(tmp_path: Path) -> None:
    model = compile_data(DATA["few tokens"], method="retrieval", precision="int8")
    model.save(tmp_path / "model")
    text = (tmp_path / "model" / "model.json").read_text()
    (tmp_path / "model" / "model.json").write_text(text.replace("int8 by one", "int16 by one", 1))
    with pytest.raises(CorruptModel):
        load(tmp_path / "model")


@pytest.mark.parametrize("precision", SHORT)
def test_weights_made_float_on_use_give_the_same_bits(precision: str) -> None:
    data = DATA["tokens"]
    built = _build(data, precision)
    network = built.memoriser.network
    assert isinstance(network, Transformer)
    inputs = torch.from_numpy(np.array(built.memoriser.encode(data.inputs)[:100]))
    with torch.no_grad():
        on_load, on_use = to_module(network)(inputs), to_stored_module(network)(inputs)
    assert on_load.numpy().tobytes() == on_use.numpy().tobytes()
    kept = sum(each.nbytes for each in to_stored_module(network).state_dict().values())
    assert kept < 0.7 * sum(each.nbytes for each in to_module(network).state_dict().values())


def test_limbs_add_up_to_their_words() -> None:
    words = np.array([[-(1 << 15), (1 << 15) - 1, 0, 127, 128, -129]])
    limbs = split_limbs(words, 2).reshape(2, 6)
    assert (np.abs(limbs[0]) <= 128).all()
    assert ((limbs.sum(axis=0) - words) % (1 << 16) == 0).all()
    plain = np.array([[0, 65535, 256]])
    offsets = 128 * (1 + 256)
    assert (split_limbs(plain, 2, unsigned=True).reshape(2, 3).sum(axis=0) + offsets == plain).all()


def test_short_numbers_add_up() -> None:
    for number in (0, 1, 255, 257, 65535, -123457, 2**23 - 1):
        parts = short_parts(number, 3)
        assert sum(parts) == number
        assert all(abs(Dyadic.of(part).mantissa).bit_length() <= 8 for part in parts)
        assert sum(column[0] for column in split_column(np.array([number]), 3)) == number
    assert short_at_least(257) == 258
    assert short_at_most(257) == 256


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_words_of_two_limbs_hold_text_with_reject_bits(precision: str) -> None:
    model = compile_data("examples/capitals.csv", method="retrieval", precision=precision, reject_bits=8)
    assert model.certificate is not None
    assert (model.certificate.checked, model.certificate.wrong) == (156, 0)
    assert model.predict("capital of Atlantis") is None
