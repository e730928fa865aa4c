"""What lies exactly at a limit of the file format comes back; one more is refused. And what a folder may not hold."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import byheart as bh
from byheart.data.dataset import Dataset
from byheart.data.piece_reader import read_pieces
from byheart.errors import ByheartError, CorruptModel, DataError, UsageError
from byheart.network import FeedForward, SparseMatrix, Transformer
from byheart.network.memoriser import Memoriser
from byheart.network.weight_format import BFLOAT16, FLOAT32, Storage, smallest_format
from byheart.storage import load_folder, save_folder
from byheart.storage.data_source import read_again, read_like, read_recitation
from byheart.storage.sparse_weights import encode_sparse
from byheart.storage.tensor_file import MAX_HEADER_BYTES, read_header, read_tensor, write_tensors
from tests.refusal import refused

from ..verify.lookup import capitals, lookup
from .test_folder import GONE, RECORD, float_network, leave, memory_of

WEIGHTS = "model.safetensors"


def save_row(path: Path, entries: dict[int, Fraction | int], n_columns: int | None = None) -> SparseMatrix:
    """Save a network whose only weights are one row."""
    width = max(entries, default=0) + 1 if n_columns is None else n_columns
    row = SparseMatrix.of((1, width), {(0, column): value for column, value in entries.items()})
    network = Transformer(row, (), SparseMatrix.of((1, 1), {}), seq_len=1)
    save_folder(path, memory_of(network), RECORD, None)
    return row


def loaded_row(path: Path) -> SparseMatrix:
    weights = load_folder(path)[0].network.w_in
    assert isinstance(weights, SparseMatrix)
    return weights


# --- exact weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [4096, -4096])
def test_an_exponent_at_the_limit_comes_back(tmp_path: Path, exponent: int) -> None:
    row = save_row(tmp_path / "m", {0: 3 * Fraction(2) ** exponent})
    assert loaded_row(tmp_path / "m") == row
    with refused(UsageError, exponent=4097):
        save_row(tmp_path / "n", {0: 3 * Fraction(2) ** (exponent + (1 if exponent > 0 else -1))})


def test_a_network_of_more_limbs_may_have_larger_exponents(tmp_path: Path) -> None:
    """5000 limbs: 4999 of one number, which is shifted by 5000, and one of another."""
    row = save_row(tmp_path / "m", {0: (2 ** (64 * 4998) + 1) * 2**5000, 1: 3})
    assert loaded_row(tmp_path / "m") == row
    with refused(UsageError, exponent=5001):
        save_row(tmp_path / "n", {0: (2 ** (64 * 4998) + 1) * 2**5001, 1: 3})


@pytest.mark.parametrize("sign", [1, -1])
def test_mantissas_of_every_length_come_back(tmp_path: Path, sign: int) -> None:
    row = save_row(tmp_path / "m", {bits: sign * (2**bits + 1) for bits in range(1, 200)})
    assert loaded_row(tmp_path / "m") == row
    counts = load_file(tmp_path / "m" / WEIGHTS)["limb_counts"]
    assert counts.tolist() == [bits // 64 + 1 for bits in range(1, 200)]


@pytest.mark.parametrize(("n_columns", "dtype"), [(256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")])
def test_columns_are_stored_in_as_few_bytes_as_hold_them(n_columns: int, dtype: str) -> None:
    row = SparseMatrix.of((1, n_columns), {(0, n_columns - 1): 1})
    assert encode_sparse([row])["columns"].dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    ("exponent", "dtype"), [(127, "i1"), (128, "i2"), (-128, "i1"), (-129, "i2"), (4096, "i2")]
)
def test_exponents_are_stored_in_as_few_bytes_as_hold_them(exponent: int, dtype: str) -> None:
    row = SparseMatrix.of((1, 2), {(0, 0): Fraction(2) ** exponent, (0, 1): 1})
    assert encode_sparse([row])["exponents"].dtype == np.dtype(dtype)


@pytest.mark.parametrize(("n_columns", "is_taken"), [(4096, True), (4097, False)])
def test_columns_without_entries_are_few(tmp_path: Path, n_columns: int, is_taken: bool) -> None:
    row = save_row(tmp_path / "m", {0: 1}, n_columns)
    if is_taken:
        assert loaded_row(tmp_path / "m") == row
    else:
        with refused(CorruptModel, "problem"):
            load_folder(tmp_path / "m")


def test_as_many_columns_as_entries_are_allowed(tmp_path: Path) -> None:
    row = save_row(tmp_path / "m", dict.fromkeys(range(4097), 1))
    assert loaded_row(tmp_path / "m") == row


def _set(name: str, values: list[int]) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda tensors: tensors.update({name: np.array(values, tensors[name].dtype)})


LIES: dict[str, list[Callable[[dict[str, np.ndarray]], None]]] = {
    "no sign": [_set("negative", [0, 1])],
    "no limb count": [_set("limb_counts", [1, 2]), _set("limbs", [3, 5, 7])],
    "no limbs, though the sum is right": [_set("limb_counts", [0, 2, 2])],
    "even though it has two limbs": [_set("limbs", [3, 4, 7, 7])],
    "a limb that no entry has": [_set("limbs", [3, 5, 7, 7, 9])],
    "last limb zero": [_set("limbs", [3, 5, 7, 0])],
    "columns fall": [_set("columns", [0, 2, 1])],
    "column repeated": [_set("columns", [0, 1, 1])],
    "column outside": [_set("columns", [0, 1, 3])],
    "one exponent too large": [_set("exponents", [0, 0, 127]), lambda t: t.update(exponents=np.array([0, 0, 4097], np.int16))],
    "row in another matrix": [_set("row_counts", [2, 1])],
}  # fmt: skip


@pytest.mark.parametrize("lie", [None, *LIES])
def test_a_lie_about_one_entry_is_refused(tmp_path: Path, lie: str | None) -> None:
    save_row(tmp_path / "m", {0: 3, 1: -5, 2: 7 * 2**64 + 7})
    tensors = load_file(tmp_path / "m" / WEIGHTS)
    assert tensors["limb_counts"].tolist() == [1, 1, 2]
    for change in LIES.get(lie or "", []):
        change(tensors)
    write_tensors(tmp_path / "m" / WEIGHTS, tensors)
    if lie is None:
        load_folder(tmp_path / "m")
    else:
        with refused(CorruptModel, "problem", file=str(tmp_path / "m" / WEIGHTS)):
            load_folder(tmp_path / "m")


# --- the file of tensors ----------------------------------------------------------------------------------


def header_file(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(start: int, stop: int, *shape: int, dtype: str = "U8") -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


def test_a_file_may_hold_no_tensor_and_notes(tmp_path: Path) -> None:
    assert read_header(header_file(tmp_path / "f", b"{}")) == {}
    assert read_header(header_file(tmp_path / "f", {"__metadata__": {"format": "pt"}})) == {}


def test_tensors_are_where_the_header_says(tmp_path: Path) -> None:
    header = {
        "b": entry(0, 6, 1, 2, 3),
        "empty": entry(6, 6, 0, 7),
        "a": entry(6, 14, 1, dtype="U64"),
        "one": entry(14, 15),
    }
    path = header_file(tmp_path / "f", header, bytes(range(15)))
    found = read_header(path)
    assert read_tensor(path, found["b"]).tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert read_tensor(path, found["a"]).tolist() == [int.from_bytes(bytes(range(6, 14)), "little")]
    assert (read_tensor(path, found["empty"]).shape, read_tensor(path, found["one"]).item()) == ((0, 7), 14)


@pytest.mark.parametrize(
    "header",
    [
        {"a": entry(0, 8, 8), "b": entry(9, 10, 1)},
        {"a": entry(0, 8, 8), "b": entry(7, 10, 3)},
        {"a": entry(0, 8, 8), "b": entry(8, 10, 1)},
        {"a": entry(0, 8, 8), "b": entry(8, 9, 1)},
        {"a": entry(0, 8, 8), "b": entry(8, 11, 3)},
        {"a": entry(0, 8, 8), "b": entry(10, 8, 2)},
        {"a": entry(1, 8, 7), "b": entry(8, 10, 2)},
        {"a": entry(0, 8, 2, 4), "b": entry(8, 10, 1, 1, 1, 2)},
        {"a": {**entry(0, 8, 8), "data_offsets": [0, 8, 8]}, "b": entry(8, 10, 2)},
        {"a": {**entry(0, 8, 8), "data_offsets": [8]}, "b": entry(8, 10, 2)},
        {"a": entry(0, 8, 8), "b": entry(8, 10, -2)},
        {"a": entry(0, 8, 8), "b": entry(8, 10, 2), "c": entry(0, 0, 0)["shape"]},
    ],
)
def test_a_header_that_is_not_the_file_is_refused(tmp_path: Path, header: dict[str, Any]) -> None:
    path = header_file(tmp_path / "f", header, bytes(10))
    with refused(CorruptModel, "problem"):
        read_header(path)


def test_a_header_of_a_hundred_million_bytes_is_the_longest(tmp_path: Path) -> None:
    path = header_file(tmp_path / "f", b"{" + b" " * (MAX_HEADER_BYTES - 2) + b"}")
    assert (MAX_HEADER_BYTES, read_header(path)) == (10**8, {})
    with path.open("ab") as file:
        file.write(b" ")
    with path.open("r+b") as file:
        file.write(struct.pack("<Q", MAX_HEADER_BYTES + 1))
    with refused(CorruptModel, "problem", file=str(path)):
        read_header(path)
    path.unlink()


@pytest.mark.parametrize("raw", [b"", b"\2" + bytes(6), b"\2" + bytes(7), b"\2" + bytes(7) + b"{"])
def test_a_file_without_its_whole_header_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "f").write_bytes(raw)
    with refused(CorruptModel, "problem", file=str(tmp_path / "f")):
        read_header(tmp_path / "f")


def test_a_file_that_shrinks_or_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = header_file(tmp_path / "f", {"a": entry(0, 10, 10)}, bytes(10))
    (stored,) = read_header(path).values()
    path.write_bytes(path.read_bytes()[:-1])
    with refused(CorruptModel, "problem", file=str(path)):
        read_tensor(path, stored)
    memory = Path("/proc/self/mem")
    if memory.exists():
        (tmp_path / "g").symlink_to(memory)
        with refused(CorruptModel, "problem", file=str(tmp_path / "g")):
            read_header(tmp_path / "g")


# --- short weights ----------------------------------------------------------------------------------------


def short_network(precision: Literal["int8", "bfloat16"]) -> Transformer:
    """Weights of seven bits: whole numbers in each row for int8, with an exponent of its own."""
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> np.ndarray:
        exponents = rng.integers(-3, 4, size=(shape[0], *[1] * (len(shape) - 1)))
        return np.ldexp(rng.integers(-100, 100, size=shape).astype(np.float32), exponents)

    layer = FeedForward(draw(4, 3), draw(4), draw(3, 4), draw(3))
    network = Transformer(draw(3, 2), (layer,), draw(1, 3), seq_len=4)
    arrays = [np.asarray(weights) for _, weights in network.parameters()]
    formats = (FLOAT32, *map(smallest_format, arrays[1:-1]), FLOAT32)  # embeddings and outputs stay whole
    return replace(network, storage=Storage(precision, formats if precision == "int8" else (BFLOAT16,) * 6))


@pytest.mark.parametrize(("precision", "dtype"), [("int8", "I8"), ("bfloat16", "BF16")])
def test_short_weights_come_back_to_the_bit(
    tmp_path: Path, precision: Literal["int8", "bfloat16"], dtype: str
) -> None:
    network = short_network(precision)
    save_folder(tmp_path / "m", memory_of(network), RECORD, None)
    again = load_folder(tmp_path / "m")[0].network
    assert again.precision == precision
    for (name, old), (same, new) in zip(network.parameters(), again.parameters(), strict=True):
        assert name == same
        assert (old.dtype, old.shape, old.tobytes()) == (new.dtype, new.shape, new.tobytes())
    with safe_open(tmp_path / "m" / WEIGHTS, framework="pt") as file:
        stored = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    assert dtype in stored.values()
    has_exponents = {name for name in stored if name.endswith(".exponents")}
    assert bool(has_exponents) == (precision == "int8")
    assert all(stored[name] == "I8" for name in has_exponents)


@pytest.mark.parametrize("change", [
    lambda t: t.pop("layers.0.w1.exponents"), lambda t: t.update(extra=t["layers.0.w1"]),
    lambda t: t.update({"layers.0.w1.exponents": t["layers.0.w1.exponents"].astype(np.int16)}),
    lambda t: t.update({"layers.0.w1.exponents": np.append(t["layers.0.w1.exponents"], t["layers.0.w1.exponents"])}),
    lambda t: t.update({"layers.0.w1": t["layers.0.w1"].astype(np.int16)}),
    lambda t: t.update({"layers.0.w1": t["layers.0.w1"].T.copy()}),
])  # fmt: skip
def test_a_lie_in_short_weights_is_refused(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray]], Any]
) -> None:
    save_folder(tmp_path / "m", memory_of(short_network("int8")), RECORD, None)
    tensors = load_file(tmp_path / "m" / WEIGHTS)
    change(tensors)
    write_tensors(tmp_path / "m" / WEIGHTS, tensors)
    with refused(CorruptModel, "problem", file=str(tmp_path / "m" / WEIGHTS)):
        load_folder(tmp_path / "m")


def test_short_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", memory_of(short_network("bfloat16")), RECORD, None)
    file = tmp_path / "m" / WEIGHTS
    stored = read_header(file)["w_in"]
    raw = bytearray(file.read_bytes())
    raw[stored.start : stored.start + 2] = struct.pack("<H", 0x7F80)  # the infinity of bfloat16
    file.write_bytes(raw)
    with refused(CorruptModel, "problem", file=str(file)):
        load_folder(tmp_path / "m")


# --- float weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: {name: tensor.astype(np.float32) for name, tensor in tensors.items()},
        lambda tensors: {**tensors, "w_in": np.zeros((3, 5))},
    ],
    ids=["another type throughout", "another dimension throughout"],
)
def test_float_weights_must_be_those_of_the_document(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
) -> None:
    save_folder(tmp_path / "m", memory_of(float_network()), RECORD, None)
    write_tensors(tmp_path / "m" / WEIGHTS, change(load_file(tmp_path / "m" / WEIGHTS)))
    with refused(CorruptModel, "problem", file=str(tmp_path / "m" / WEIGHTS)):
        load_folder(tmp_path / "m")


# --- documents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        {"notes": 1}, {"options": []}, {"versions": "1"}, {"versions": {"byheart": 1}},
        {"refused": {"llama": 1}}, {"reading": [1]}, {"refused": []},
    ],
)  # fmt: skip
def test_parts_of_the_record_are_of_the_kinds_that_compile_writes(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    save_folder(tmp_path / "m", lookup(capitals()), {**RECORD, **record}, None)
    with refused(CorruptModel, "problem", file=str(tmp_path / "m" / "model.json")):
        load_folder(tmp_path / "m")


def test_a_label_that_is_not_unicode_is_shown_with_what_surrounds_it(tmp_path: Path) -> None:
    label = "x" * 30 + "\ud800" + "y" * 30
    memoriser = Memoriser(float_network(), "next-token", (label,), None, True)
    with refused(DataError, text=ascii("x" * 10 + "\ud800" + "y" * 9)):
        save_folder(tmp_path / "model", memoriser, RECORD, None)


def test_three_reasons_why_a_path_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    messages = set()
    for name in ("missing", "empty", "file"):
        with refused(UsageError, path=str(tmp_path / name)) as caught:
            load_folder(tmp_path / name)
        messages.add(str(caught.value).replace(name, ""))
    assert len(messages) == 3


def test_loading_a_model_leaves_what_lies_beside_it(tmp_path: Path) -> None:
    save_folder(tmp_path / "model", lookup(capitals()), RECORD, None)
    beside = leave(tmp_path / "model", lookup(capitals()), "new", process=GONE)
    load_folder(tmp_path / "model")
    assert beside.exists()


def test_up_to_eight_other_files_are_named(tmp_path: Path) -> None:
    save_folder(tmp_path / "model", lookup(capitals()), RECORD, None)
    named = []
    for number in range(9):
        (tmp_path / "model" / f"other{number}").touch()
        with refused(CorruptModel, "problem", file=str(tmp_path / "model")) as caught:
            load_folder(tmp_path / "model")
        problem = str(caught.value.facts["problem"])
        named.append((sum(f"other{each}" in problem for each in range(9)), "..." in problem))
    assert named == [*((n, False) for n in range(1, 9)), (8, True)]


def test_a_vocabulary_may_be_as_large_as_the_network_embeds(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", lookup(capitals()), RECORD, None)
    file = tmp_path / "m" / "model.json"
    document = json.loads(file.read_text())
    assert document["architecture"]["n_vocab"] == 6  # five words and the padding
    for n_more, is_taken in ((1, True), (2, False)):
        words = [*document["tokenizer"]["vocabulary"], *(f"z{i}" for i in range(n_more))]
        changed = {**document, "tokenizer": {**document["tokenizer"], "vocabulary": words}}
        file.write_text(json.dumps(changed))
        if is_taken:
            assert load_folder(tmp_path / "m")[0].tokenizer.vocabulary[-1] == "z0"
        else:
            with refused(CorruptModel, "problem", file=str(file)):
                load_folder(tmp_path / "m")


def test_a_network_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    network = replace(float_network(), seq_len=2**25)
    with refused(UsageError, "problem"):
        save_folder(tmp_path / "m", memory_of(network), RECORD, None)
    assert list(tmp_path.iterdir()) == []


# --- where a folder may be written ------------------------------------------------------------------------


@pytest.mark.parametrize("path", [5, None, "a\0b", b"a\0b", ["model"]])
def test_what_is_not_a_path_is_refused(path: Any) -> None:
    for use in (load_folder, lambda path: save_folder(path, lookup(capitals()), RECORD, None)):
        with refused(UsageError, path=repr(path)):
            use(path)


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    from byheart.storage.target import check_target

    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with refused(UsageError, path=str(tmp_path / "link")):
        check_target(tmp_path / "link")
    check_target(tmp_path / "new")


def test_three_of_the_files_in_the_way_are_named(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"thesis{number}").touch()
    with refused(UsageError, holds=[f"thesis{number}" for number in range(5)]) as caught:
        save_folder(tmp_path, lookup(capitals()), RECORD, None)
    assert [f"thesis{number}" in str(caught.value) for number in range(5)] == [True] * 3 + [False] * 2


def test_what_is_in_the_way_is_named_and_not_what_may_be_there(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / WEIGHTS).touch()
    save_folder(tmp_path / "whole", lookup(capitals()), RECORD, None)
    (tmp_path / "whole" / "thesis").touch()
    for name, holds in (("half", [WEIGHTS]), ("whole", ["thesis"])):
        with refused(UsageError, holds=holds) as caught:
            save_folder(tmp_path / name, lookup(capitals()), RECORD, None)
        assert (WEIGHTS in str(caught.value), "thesis" in str(caught.value)) == (
            name == "half",
            name == "whole",
        )
        assert ("is not a byheart model folder" in str(caught.value)) == (name == "half")


# --- reading data as a model's were read ------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("q,a,other\na,x,1\nb,y,2\nb,z,3\nc,,4\n")
    return path


def test_data_are_read_again_as_they_were(table: Path) -> None:
    reading = {"input": "q", "label": "a", "on_conflict": "first", "tokenizer": "word"}
    model = bh.compile(table, **reading, empty_labels="keep")
    like, again = read_like(model, table), read_again(model, table)
    assert (like.n_samples, again.n_samples) == (4, 3)
    assert (like.tokenizer, like.task) == (model.memoriser.tokenizer, "next-token")
    assert read_like(model, table, label="other").label_names == ("1", "2", "3", "4")
    assert read_again(model, table, on_conflict="drop").n_samples == 2
    strict = bh.compile(Dataset.from_pairs([("a", "x"), ("b", "y")], tokenizer="word"))
    with pytest.raises(ByheartError):  # the column `key`, which this file does not have
        read_like(strict, table)
    assert read_again(strict, table, input="q", label="a").n_samples == 4


def test_a_model_that_recites_needs_a_tokenizer(tmp_path: Path) -> None:
    texts = tmp_path / "t.txt"
    texts.write_text("a b c\nd e f\n")
    model = bh.load(Path(__file__).parent / "fixtures" / "recite")
    windows = read_like(model, texts)
    assert windows.source is not None
    assert windows.source.recite
    assert windows.n_samples > 2
    for option, value in {"label": "x", "on_conflict": "first", "max_tokens": 3}.items():
        with refused(UsageError, option=option):
            read_like(model, texts, **{option: value})
    silent = replace(model, memoriser=replace(model.memoriser, tokenizer=None))
    with refused(CorruptModel, "problem"):
        read_like(silent, texts)
    unknown = replace(model, record={**model.record, "reading": {"of a later version": 1, "input": None}})
    assert read_like(unknown, Path(__file__).parents[2] / "examples" / "capitals.csv").n_samples == 156


def test_documents_have_no_labels_and_some_files_no_columns(tmp_path: Path) -> None:
    """A name of a column that is not read would be repeated in the verdict as if it had been."""
    table, lines = tmp_path / "t.csv", tmp_path / "t.txt"
    table.write_text("text,answer\na b c,x\na b d,y\n")
    lines.write_text("a b c\na b d\n")
    model = bh.compile(table, task="distribution", method="dana-2024", input="text")
    assert read_like(model, table).digest == read_like(model, lines).digest
    with refused(UsageError, option="label"):
        read_like(model, table, label="answer")
    with refused(UsageError, option="label"):
        Dataset.read(table, task="distribution", label="answer")
    for option in ("input", "label"):
        with refused(UsageError, option=option):
            read_like(model, lines, **{option: "text"})
    np.savez(tmp_path / "t.npz", inputs=np.eye(2), labels=np.arange(2))
    with refused(UsageError, option="input"):
        Dataset.read(tmp_path / "t.npz", input="text")
    with refused(UsageError, option="label"):
        list(read_pieces(tmp_path / "t.npz", 0, label="labels"))


def test_texts_that_a_tokenizer_does_not_restore_are_not_recited(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the `tokenizers` extra")
    words = {"<unk>": 0, "a": 1, "b": 2, "c": 3}
    document = {"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}}
    document["model"] = {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}
    tokenizer, texts = tmp_path / "tokenizer.json", tmp_path / "t.txt"
    tokenizer.write_text(json.dumps(document))
    texts.write_text("a  b\nb\tc a\n")
    assert read_recitation(texts, tokenizer=str(tokenizer)).n_samples > 2
    texts.write_text("a b\nc d\n")
    with refused(DataError, row=2, path=str(texts)):
        read_recitation(texts, tokenizer=str(tokenizer))
