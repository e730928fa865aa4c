"""A folder may be hostile: every lie in it is found before memory is taken, and named."""

from __future__ import annotations

import json
import resource
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from byheart.errors import CorruptModel, UsageError
from byheart.network import SparseMatrix, Transformer
from byheart.network.memoriser import Memoriser
from byheart.storage import load_folder, save_folder
from byheart.storage.tensor_file import write_tensors
from byheart.verify import verify
from tests.examples import THOROUGH
from tests.refusal import refused

from ..verify.lookup import capitals, lookup
from .test_folder import RECORD, float_network, memory_of

WEIGHTS = "model.safetensors"
REMEDY = "Restore the folder from a copy you trust, or compile the data again."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = capitals()
    memoriser = lookup(data)
    save_folder(tmp_path / "model", memoriser, RECORD, verify(memoriser, data))
    return tmp_path / "model"


@pytest.fixture
def float_folder(tmp_path: Path) -> Path:
    save_folder(tmp_path / "model", memory_of(float_network()), RECORD, None)
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """No load below may take memory by what a file claims: half a gigabyte more than now must do."""
    status = Path("/proc/self/statm")
    if not status.exists():  # only Linux says how much is in use
        yield
        return
    now = int(status.read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**29, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def refuses(folder: Path, file: str) -> None:
    """Loading fails, and says which file, what and what to do (on a line of its own)."""
    with refused(CorruptModel, "problem", "file") as caught:
        load_folder(folder)
    assert str(caught.value).splitlines()[-1].startswith("  ")
    assert str(caught.value.facts["file"]).startswith(str(folder / file))


def tensors_of(folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(folder / WEIGHTS)


def change_header(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrite the header of the weight file and leave the tensors as they are."""
    raw = (folder / WEIGHTS).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header = change(header) or header
    text = json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])


def change_json(folder: Path, change: Callable[[dict[str, Any]], Any], file: str = "model.json") -> None:
    document = json.loads((folder / file).read_bytes())
    document = change(document) or document
    (folder / file).write_text(json.dumps(document), encoding="utf-8")


# --- files cut short ------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [WEIGHTS, "model.json", "certificate.json"])
def test_a_file_cut_anywhere_is_refused(folder: Path, file: str) -> None:
    whole = (folder / file).read_bytes()
    for length in range(0, len(whole), 1 if THOROUGH else 7):
        (folder / file).write_bytes(whole[:length])
        with refused(CorruptModel, "file", "problem"):
            load_folder(folder)
    (folder / file).write_bytes(whole)
    load_folder(folder)


def test_a_float_file_cut_anywhere_is_refused(float_folder: Path) -> None:
    whole = (float_folder / WEIGHTS).read_bytes()
    for length in range(0, len(whole), 7):
        (float_folder / WEIGHTS).write_bytes(whole[:length])
        refuses(float_folder, WEIGHTS)


@pytest.mark.parametrize("file", [WEIGHTS, "model.json", "certificate.json"])
def test_bytes_added_at_the_end_are_refused(folder: Path, file: str) -> None:
    with (folder / file).open("ab") as opened:
        opened.write(b"\0")
    refuses(folder, file)


def test_missing_weights_are_refused(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    refuses(folder, WEIGHTS)


def test_a_folder_instead_of_a_file_is_refused(folder: Path) -> None:
    (folder / "certificate.json").unlink()
    (folder / "certificate.json").mkdir()
    refuses(folder, "certificate.json")


# --- the header of the weight file ----------------------------------------------------------------------


def test_a_tensor_of_two_to_the_sixty_elements_is_refused(folder: Path) -> None:
    change_header(folder, lambda header: header["limbs"].update(shape=[2**60]))
    refuses(folder, WEIGHTS)


def test_a_tensor_whose_size_overflows_64_bits_is_refused(folder: Path) -> None:
    change_header(folder, lambda header: header["limbs"].update(shape=[2**61 + 1, 8]))
    refuses(folder, WEIGHTS)


HEADER_LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "empty shape of floats": lambda h: h["limbs"].update(shape=[1.5]),
    "negative size": lambda h: h["limbs"].update(shape=[-1]),
    "true as a size": lambda h: h["limbs"].update(shape=[True]),
    "four axes": lambda h: h["limbs"].update(shape=[1, 1, 1, 1]),
    "unknown dtype": lambda h: h["limbs"].update(dtype="C64"),
    "another dtype": lambda h: h["negative"].update(dtype="I8"),
    "offsets beyond the file": lambda h: h["limbs"].update(data_offsets=[0, 10**9]),
    "falling offsets": lambda h: h["limbs"].update(data_offsets=[8, 0]),
    "one offset": lambda h: h["limbs"].update(data_offsets=[0]),
    "negative offset": lambda h: h["limbs"].update(data_offsets=[-8, 0]),
    "place too small": lambda h: h["limbs"].update(shape=[h["limbs"]["shape"][0] - 1]),
    "overlap": lambda h: h["columns"].update(h["negative"]),
    "tensor missing": lambda h: h.pop("limbs") and None,
    "stranger": lambda h: h.update(extra={"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}),
    "no field": lambda h: h["limbs"].pop("dtype") and None,
    "not an object": lambda h: h.update(limbs=7),
    "a list": lambda h: [h],
    "two axes": lambda h: h["columns"].update(shape=[h["columns"]["shape"][0], 1]),
}


@pytest.mark.parametrize("lie", HEADER_LIES)
def test_a_lie_in_the_header_is_refused(folder: Path, lie: str) -> None:
    change = HEADER_LIES[lie]
    change_header(folder, change)
    refuses(folder, WEIGHTS)


def test_one_byte_is_singular(folder: Path) -> None:
    change_header(folder, lambda header: header["negative"].update(shape=[1], data_offsets=[0, 0]))
    with pytest.raises(CorruptModel, match="takes 1 byte, but"):
        load_folder(folder)


def test_tensors_that_share_their_bytes_are_refused(folder: Path) -> None:
    """The sizes still add up to those of the file: only the places say that two tensors are one."""

    def share(header: dict[str, Any]) -> None:
        first, second = sorted(("columns", "negative"), key=lambda name: header[name]["data_offsets"])
        assert header[first]["shape"] == header[second]["shape"]
        header[second]["data_offsets"] = header[first]["data_offsets"]

    change_header(folder, share)
    refuses(folder, WEIGHTS)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 10**8 + 1, 10**6])
def test_a_header_longer_than_the_file_is_refused(folder: Path, length: int) -> None:
    raw = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", length) + raw[8:])
    refuses(folder, WEIGHTS)


def test_a_header_of_a_hundred_megabytes_is_refused_unread(folder: Path) -> None:
    with (folder / WEIGHTS).open("wb") as file:
        file.write(struct.pack("<Q", 2**40))
        file.truncate(2**41)  # a sparse file: as long as it claims, without the disk space
    refuses(folder, WEIGHTS)


# --- the integers inside --------------------------------------------------------------------------------


def _set(name: str, place: int, value: int) -> Callable[[dict[str, np.ndarray]], None]:
    def change(tensors: dict[str, np.ndarray]) -> None:
        tensors[name][place] = value

    return change


def _replace(
    name: str, change: Callable[[np.ndarray], np.ndarray]
) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda tensors: tensors.update({name: change(tensors[name])})


TENSOR_LIES: dict[str, Callable[[dict[str, np.ndarray]], None]] = {
    "column outside": _set("columns", 2, 1),
    "sign of two": _set("negative", 1, 2),
    "even mantissa": _set("limbs", 3, 2),
    "zero mantissa": _set("limbs", 0, 0),
    "no limbs": _set("limb_counts", 0, 0),
    "more entries than there are": _set("row_counts", 0, 200),
    "one row less": _replace("row_counts", lambda a: a[:-1]),
    "one entry less": _replace("exponents", lambda a: a[:-1]),
    "one limb more": _replace("limbs", lambda a: np.append(a, a[:1])),
    "huge exponent": _replace("exponents", lambda a: np.full_like(a, 2**30, dtype=np.int32)),
    "least exponent of all": _replace("exponents", lambda a: np.full_like(a, -(2**31), dtype=np.int32)),
    "huge column": _replace("columns", lambda a: np.full_like(a, 2**32 - 1, dtype=np.uint32)),
    "wider row counts": _replace("row_counts", lambda a: a.astype(np.uint16)),
    "wider columns": _replace("columns", lambda a: a.astype(np.uint32)),
    "wider exponents": _replace("exponents", lambda a: a.astype(np.int32)),
    "wider limb counts": _replace("limb_counts", lambda a: a.astype(np.uint16)),
    "signed columns": _replace("columns", lambda a: a.astype(np.int64) - 1),
    "floats": _replace("limbs", lambda a: a.astype(np.float64)),
}


@pytest.mark.parametrize("lie", TENSOR_LIES)
def test_a_lie_in_the_integers_is_refused(folder: Path, lie: str) -> None:
    change = TENSOR_LIES[lie]
    tensors = {name: tensor.copy() for name, tensor in tensors_of(folder).items()}
    change(tensors)
    write_tensors(folder / WEIGHTS, tensors)
    refuses(folder, WEIGHTS)


def test_repeated_and_misordered_entries_are_refused(tmp_path: Path) -> None:
    weights = SparseMatrix.of((1, 3), {(0, 0): 3, (0, 2): 5})
    network = Transformer(SparseMatrix.of((3, 1), {}), (), weights, seq_len=1)
    save_folder(tmp_path / "m", Memoriser(network, "next-token", ("a",), None, True), RECORD, None)
    for columns in ([2, 2], [2, 0]):
        tensors = {name: tensor.copy() for name, tensor in tensors_of(tmp_path / "m").items()}
        tensors["columns"] = np.array(columns, np.uint8)
        write_tensors(tmp_path / "m" / WEIGHTS, tensors)
        refuses(tmp_path / "m", WEIGHTS)


def test_a_leading_zero_limb_is_refused(tmp_path: Path) -> None:
    weights = SparseMatrix.of((1, 1), {(0, 0): 2**64 + 1})
    network = Transformer(SparseMatrix.of((1, 1), {}), (), weights, seq_len=1)
    save_folder(tmp_path / "m", Memoriser(network, "next-token", ("a",), None, True), RECORD, None)
    tensors = {name: tensor.copy() for name, tensor in tensors_of(tmp_path / "m").items()}
    tensors["limbs"][1] = 0
    write_tensors(tmp_path / "m" / WEIGHTS, tensors)
    refuses(tmp_path / "m", WEIGHTS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.update(w_in=np.full((3, 2), np.nan)), "w_in holds a weight that is not finite"),
        (lambda t: t.update(w_in=np.zeros((2, 3))), r"w_in must have shape \[3, 2\] and dtype F64"),
        (lambda t: t.update(w_in=np.zeros((3, 2), np.float32)), "not .* and F32"),
        (lambda t: t.pop("w_in"), "holds 21 tensors; the architecture"),
        (lambda t: t.update(w_im=t.pop("w_in")), "lacks the tensor w_in"),
    ],
)
def test_a_lie_in_float_weights_is_refused(
    float_folder: Path, change: Callable[[dict[str, np.ndarray]], Any], words: str
) -> None:
    tensors = tensors_of(float_folder)
    change(tensors)
    write_tensors(float_folder / WEIGHTS, tensors)
    refuses(float_folder, WEIGHTS)


# --- the documents --------------------------------------------------------------------------------------


def _architecture(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["architecture"].update(values)


def _layers(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["architecture"]["layers"][0].update(values)


DOCUMENT_LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "2^60 layers": _layers(n_layers=2**60),
    "a billion layers": _layers(n_layers=10**9),
    "no layers": _layers(n_layers=0),
    "huge hidden width": _layers(hidden_width=2**24),
    "absurd hidden width": _layers(hidden_width=2**62),
    "unknown layer": _layers(kind="convolution"),
    "huge width": _architecture(model_width=2**24),
    "absurd width": _architecture(model_width=10**30),
    "negative width": _architecture(model_width=-1),
    "wrong width": _architecture(model_width=2),
    "huge dimension": _architecture(dim=2**60),
    "huge vocabulary": _architecture(n_vocab=2**40),
    "huge length": _architecture(seq_len=2**50),
    "pad outside": _architecture(pad=100),
    "pad without vocabulary": _architecture(n_vocab=None),
    "precision": _architecture(precision="float16"),
    "floats for exact": _architecture(precision="float64"),
    "a text for a number": _architecture(dim="1"),
    "true for a number": _architecture(dim=True),
    "layers no list": _architecture(layers={}),
    "no heads": _layers(kind="attention", attention="uniform", head_sizes=[]),
    "no architecture": lambda d: d.pop("architecture") and None,
    "unknown task": lambda d: d.update(task="dream"),
    "no labels": lambda d: d.update(labels=[]),
    "repeated labels": lambda d: d.update(labels=["a", "a"]),
    "numbers as labels": lambda d: d.update(labels=[1, 2]),
    "words as whole numbers": lambda d: d.update(label_type="integer"),
    "unknown type of labels": lambda d: d.update(label_type="complex"),
    "no tokenizer kind": lambda d: d["tokenizer"].update(name="magic"),
    "broken vocabulary": lambda d: d["tokenizer"].update(vocabulary=["a", "a"]),
    "vocabulary too large": lambda d: d["tokenizer"].update(vocabulary=[f"w{i}" for i in range(7)]),
    "record": lambda d: d.update(record=[]),
    "assumptions": lambda d: d["record"].update(assumptions=[1]),
    "theorem": lambda d: d["record"].update(theorem=4.1),
    "theorem size": lambda d: d["record"].update(theorem_size={"depth": "deep"}),
    "data set": lambda d: d["record"].update(dataset="here"),
    "schema zero": lambda d: d.update(schema=0),
    "schema text": lambda d: d.update(schema="1"),
    "a list": lambda d: [d],
}


@pytest.mark.parametrize("lie", DOCUMENT_LIES)
def test_a_lie_in_model_json_is_refused(folder: Path, lie: str) -> None:
    change = DOCUMENT_LIES[lie]
    change_json(folder, change)
    with refused(CorruptModel, "file", "problem"):
        load_folder(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is empty"),
        (b"\xff\xfe{}", "is not UTF-8: byte 0 is 0xff"),
        (b"null", "is null; it must be an object"),
        (b'{"schema": NaN}', "NaN is not a number"),
        (b'{"schema": -Infinity}', "-Infinity is not a number"),
        (b'{"schema": 1e999}', "1e999 is too large"),
        (b'{"schema": 1, "schema": 1}', "'schema' appears twice"),
        (b'{"schema": "\\ud800"}', "not valid Unicode"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b'{"a": ' * 40 + b"1" + b"}" * 40, "nested more than 32 levels"),
        (b"[" * 10**6, "nested more than 32 levels|not valid JSON"),
        (b'{"schema": 1,', r"line 1, column 14 \(the file may be truncated\)"),
    ],
    ids=lambda value: repr(value[:20]),
)
@pytest.mark.parametrize("file", ["model.json", "certificate.json"])
def test_json_that_is_no_document_is_refused(folder: Path, file: str, text: bytes, words: str) -> None:
    (folder / file).write_bytes(text)
    refuses(folder, file)


def test_a_document_of_a_terabyte_is_refused_unread(folder: Path) -> None:
    with (folder / "model.json").open("wb") as file:
        file.truncate(2**40)
    refuses(folder, "model.json")


CERTIFICATE_LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "holds as a text": lambda d: d.update(holds="yes"),
    "wrong and holds": lambda d: d.update(wrong=3),
    "negative count": lambda d: d.update(checked=-1),
    "infinite size": lambda d: d["size"].update(width=1e308),
    "missing size": lambda d: d["size"].pop("depth") and None,
    "problems": lambda d: d.update(problems="none"),
    "wrong sample": lambda d: d.update(wrong_samples=[{}]),
    "versions": lambda d: d.update(versions={"python": 3.11}),
    "newer": lambda d: d.update(schema=2),
}


@pytest.mark.parametrize("lie", CERTIFICATE_LIES)
def test_a_lie_in_the_certificate_is_refused(folder: Path, lie: str) -> None:
    change = CERTIFICATE_LIES[lie]
    change_json(folder, change, "certificate.json")
    refuses(folder, "certificate.json")


def test_a_newer_schema_asks_for_a_newer_byheart(folder: Path) -> None:
    change_json(folder, lambda document: document.update(schema=2))
    with refused(UsageError, schema=2):
        load_folder(folder)


def test_every_refusal_says_what_to_do(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"")
    with pytest.raises(CorruptModel) as caught:
        load_folder(folder)
    assert str(caught.value).startswith(f"{folder / WEIGHTS}: {caught.value.facts['problem']}")
    assert str(caught.value).endswith(f"\n  {REMEDY}")
