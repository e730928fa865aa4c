"""Saved folders: what is saved is what is loaded, to the last bit; written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from safetensors import safe_open

from byheart.errors import CorruptModel, UsageError
from byheart.network import Attention, FeedForward, Head, SparseMatrix, Transformer
from byheart.network.memoriser import Memoriser
from byheart.storage import load_folder, save_folder
from byheart.verify import verify, weights_digest
from tests.examples import examples
from tests.refusal import refused

from ..network.networks import exact_networks
from ..verify.lookup import capitals, lookup

RECORD: dict[str, Any] = {"method": "by hand", "seed": 0, "versions": {"byheart": "0.1.0"}}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def same_network(left: Transformer, right: Transformer) -> bool:
    def equal(a: object, b: object) -> bool:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return a == b

    pairs = list(zip(left.parameters(), right.parameters(), strict=True))
    return (
        all(a[0] == b[0] and equal(a[1], b[1]) for a, b in pairs)
        and [getattr(layer, "kind", type(layer)) for layer in left.layers]
        == [getattr(layer, "kind", type(layer)) for layer in right.layers]
        and (left.seq_len, left.pad) == (right.seq_len, right.pad)
    )


def memory_of(network: Transformer) -> Memoriser:
    return Memoriser(network, "next-token", ("zero", "één", "三"), None, True)


def float_network(dtype: str = "float64", kind: str = "softmax") -> Transformer:
    rng = np.random.default_rng(7)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    heads = tuple(Head(draw(2, 3), draw(3, 2), draw(2, 3), draw(2, 3)) for _ in range(2))
    layers = (
        FeedForward(draw(4, 3), draw(4), draw(3, 4), draw(3)),
        FeedForward(draw(4, 3), draw(4), draw(3, 4), draw(3)),
        Attention(heads, kind),
        FeedForward(draw(5, 3), draw(5), draw(3, 5), draw(3)),
    )
    return Transformer(draw(3, 2), layers, draw(1, 3), seq_len=4)


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=exact_networks(bits=200))
def test_exact_networks_come_back_to_the_bit(tmp_path: Path, network: Transformer) -> None:
    save_folder(tmp_path / "model", memory_of(network), RECORD, None)
    memoriser, record, certificate = load_folder(tmp_path / "model")
    assert same_network(memoriser.network, network)
    assert weights_digest(memoriser.network) == weights_digest(network)
    assert memoriser.label_names == ("zero", "één", "三")
    assert (record, certificate) == (RECORD, None)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["softmax", "hardmax"])
def test_float_networks_come_back_to_the_bit(tmp_path: Path, dtype: str, kind: str) -> None:
    network = float_network(dtype, kind)
    save_folder(tmp_path / "model", memory_of(network), RECORD, None)
    assert same_network(load_folder(tmp_path / "model")[0].network, network)


def test_float_tensors_have_their_own_names_for_any_reader(tmp_path: Path) -> None:
    network = float_network()
    save_folder(tmp_path / "model", memory_of(network), RECORD, None)
    with safe_open(tmp_path / "model" / "model.safetensors", framework="numpy") as file:
        assert set(file.keys()) == {name for name, _ in network.parameters()}
        for name, weights in network.parameters():
            assert np.array_equal(file.get_tensor(name), weights)


def test_thousands_of_exact_layers_are_six_tensors_that_any_reader_opens(tmp_path: Path) -> None:
    memoriser = lookup(capitals(), n_layers=3000)
    save_folder(tmp_path / "model", memoriser, RECORD, None)
    with safe_open(tmp_path / "model" / "model.safetensors", framework="numpy") as file:
        assert sorted(file.keys()) == [
            "columns",
            "exponents",
            "limb_counts",
            "limbs",
            "negative",
            "row_counts",
        ]
        assert file.get_tensor("row_counts").dtype == np.uint8
    assert (tmp_path / "model" / "model.json").stat().st_size < 2000
    assert same_network(load_folder(tmp_path / "model")[0].network, memoriser.network)


def test_a_whole_model_comes_back(tmp_path: Path) -> None:
    data = capitals()
    memoriser = lookup(data)
    certificate = verify(memoriser, data)
    save_folder(tmp_path / "model", memoriser, RECORD, certificate)
    loaded, record, stored = load_folder(tmp_path / "model")
    assert stored == certificate
    assert record == RECORD
    assert loaded.tokenizer == memoriser.tokenizer
    assert (loaded.task, loaded.ordered, loaded.label_names) == ("next-token", True, data.label_names)
    assert loaded.answer(loaded.encode(data.inputs)).tolist() == data.labels.tolist()


@given(mantissa=st.integers(-(2**700), 2**700), exponent=st.integers(-(2**20), 2**20))
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_number_the_format_allows_survives(tmp_path: Path, mantissa: int, exponent: int) -> None:
    low = 2 * mantissa + 1
    weights = SparseMatrix.of((2, 1), {(1, 0): Fraction(low) * Fraction(2) ** (exponent // 1000)})
    network = Transformer(weights, (), SparseMatrix.of((1, 2), {}), seq_len=1)
    save_folder(tmp_path / "model", memory_of(network), RECORD, None)
    assert load_folder(tmp_path / "model")[0].network.w_in == weights


def test_a_weight_beyond_the_format_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    weights = SparseMatrix.of((1, 1), {(0, 0): 2 ** (2**20 + 1)})
    network = Transformer(weights, (), SparseMatrix.of((1, 1), {}), seq_len=1)
    with refused(UsageError, exponent=1048577):
        save_folder(tmp_path / "model", memory_of(network), RECORD, None)
    assert list(tmp_path.iterdir()) == []


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    data = capitals()
    memoriser = lookup(data)
    certificate = verify(memoriser, data)
    for name in ("one", "two"):
        save_folder(tmp_path / name, memoriser, RECORD, certificate)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    reloaded = load_folder(tmp_path / "one")
    save_folder(tmp_path / "three", *reloaded)
    assert contents(tmp_path / "one") == contents(tmp_path / "three")


# --- where a folder may be written ----------------------------------------------------------------------


def test_a_model_folder_is_replaced(tmp_path: Path) -> None:
    data = capitals()
    save_folder(tmp_path / "model", lookup(data), RECORD, verify(lookup(data), data))
    save_folder(tmp_path / "model", lookup(data, n_layers=5), RECORD, None)
    assert len(load_folder(tmp_path / "model")[0].network.layers) == 5
    assert sorted(contents(tmp_path / "model")) == ["model.json", "model.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in ("empty", "a/b/c"):
        save_folder(tmp_path / place, lookup(capitals()), RECORD, None)
        assert load_folder(tmp_path / place)[1] == RECORD
    assert (tmp_path / "a" / "b" / "c").stat().st_mode & 0o777 == 0o777 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("foreign", ["notes.txt", ".hidden", "model.safetensors"])
def test_any_other_folder_is_left_alone(tmp_path: Path, foreign: str) -> None:
    target = tmp_path / "thesis"
    target.mkdir()
    (target / foreign).write_text("three years of work")
    before = contents(tmp_path)
    with refused(UsageError, "path", "holds"):
        save_folder(target, lookup(capitals()), RECORD, None)
    assert contents(tmp_path) == before


def test_a_model_folder_with_a_stranger_in_it_is_left_alone(tmp_path: Path) -> None:
    save_folder(tmp_path / "model", lookup(capitals()), RECORD, None)
    (tmp_path / "model" / "README.md").write_text("mine")
    before = contents(tmp_path)
    with refused(UsageError, "path", "holds"):
        save_folder(tmp_path / "model", lookup(capitals()), RECORD, None)
    assert contents(tmp_path) == before


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    with refused(UsageError, "path"):
        save_folder(tmp_path / "model", lookup(capitals()), RECORD, None)
    assert contents(tmp_path) == {"model": b"a file"}


@pytest.mark.parametrize("moment", ["write_bytes", "fsync", "rename"])
@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_at_any_moment_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, failure: BaseException
) -> None:
    save_folder(tmp_path / "model", lookup(capitals()), RECORD, None)
    before = contents(tmp_path)
    calls = {"n": 0}
    true = {"write_bytes": Path.write_bytes, "fsync": os.fsync, "rename": Path.rename}[moment]

    def fail_second(*arguments: Any) -> Any:
        calls["n"] += 1
        if calls["n"] == 2:  # for rename: the old model is aside, the new one not yet in place
            raise failure
        return true(*arguments)

    if moment == "rename":  # where the system cannot exchange two folders
        monkeypatch.setattr("byheart.files.atomic_folder._exchange", lambda *_: False)
    owner: Any = os if moment == "fsync" else Path
    monkeypatch.setattr(owner, moment, fail_second)
    certificate = verify(lookup(capitals()), capitals())
    with pytest.raises(UsageError if isinstance(failure, OSError) else KeyboardInterrupt):
        save_folder(tmp_path / "model", lookup(capitals(), n_layers=9), RECORD, certificate)
    monkeypatch.undo()
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_text_that_is_no_unicode_is_refused(tmp_path: Path) -> None:
    memoriser = Memoriser(float_network(), "next-token", ("half \ud800",), None, True)
    with refused(Exception, "text"):
        save_folder(tmp_path / "model", memoriser, RECORD, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "desktop.ini"])
def test_what_systems_put_into_folders_is_not_in_the_way(tmp_path: Path, name: str) -> None:
    """It is not read, so a pipe in its place is not waited for."""
    save_folder(tmp_path / "model", lookup(capitals()), RECORD, None)
    os.mkfifo(tmp_path / "model" / name)
    load_folder(tmp_path / "model")
    save_folder(tmp_path / "model", lookup(capitals()), RECORD, None)
    assert not (tmp_path / "model" / name).exists()
    (tmp_path / "model" / name.upper()).write_text("another name")
    with pytest.raises(CorruptModel):
        load_folder(tmp_path / "model")


# --- a path that is no model ----------------------------------------------------------------------------


def test_a_path_that_is_no_model_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("missing", "empty", "file"):
        with refused(UsageError, path=str(tmp_path / name)):
            load_folder(tmp_path / name)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_a_record_that_is_no_json_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(UsageError):
        save_folder(tmp_path / "model", lookup(capitals()), {"notes": value}, None)
    assert list(tmp_path.iterdir()) == []


# --- after a crash ----------------------------------------------------------------------------------------

GONE = 2**22 + 1  # above the largest process number of Linux


def leave(
    folder: Path, memoriser: Memoriser, kind: str, *, process: int = GONE, mark: str = "0badcafe"
) -> Path:
    """A folder as a save of another process would leave it beside `folder`."""
    path = folder.with_name(f".{folder.name}.{process}-{mark}.{kind}")
    save_folder(path, memoriser, RECORD, None)
    return path


def test_a_crash_between_two_renames_is_mended(tmp_path: Path) -> None:
    target, data = tmp_path / "model", capitals()
    leave(target, lookup(data), "old")
    leave(target, lookup(data, n_layers=5), "new")
    memoriser, _, _ = load_folder(target)
    assert memoriser.network.spec.n_layers == 5  # every file of it was on disk already
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_old_model_comes_back_where_there_is_no_new_one(tmp_path: Path) -> None:
    target = tmp_path / "model"
    leave(target, lookup(capitals()), "old")
    load_folder(target)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_leftovers_are_cleared_by_the_next_save_and_no_one_elses(tmp_path: Path) -> None:
    target, memoriser = tmp_path / "model", lookup(capitals())
    leave(target, memoriser, "new")
    leave(target, memoriser, "old", mark="0badbeef")
    alive = leave(target, memoriser, "new", process=os.getppid(), mark="deadbeef")
    other = leave(tmp_path / "models", memoriser, "new")
    save_folder(target, memoriser, RECORD, None)
    assert {path.name for path in tmp_path.iterdir()} == {"model", alive.name, other.name}


def test_an_unfinished_first_save_is_no_model(tmp_path: Path) -> None:
    """Without the old one beside it nobody knows whether every file is on disk."""
    leave(tmp_path / "model", lookup(capitals()), "new")
    with refused(UsageError, "path"):
        load_folder(tmp_path / "model")


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


# --- while another process saves ------------------------------------------------------------------------

SAVING = """
import sys
from byheart.files import atomic_folder
from byheart.pipeline import load
if sys.argv[4] == "two moves":
    atomic_folder._exchange = lambda one, other: False
models = [load(path) for path in sys.argv[1:3]]
for number in range(150):
    models[number % 2].save(sys.argv[3])
"""


@pytest.mark.parametrize("how", ["one step", "two moves"])
def test_a_model_that_is_saved_anew_meanwhile_is_read_whole(how: str, tmp_path: Path) -> None:
    """A load found nothing for a moment, or some files of the one and some of the other."""
    paths = [tmp_path / name for name in ("one", "two", "target")]
    for path, n_layers in zip(paths, (3, 5, 3), strict=True):
        save_folder(path, lookup(capitals(), n_layers=n_layers), RECORD, None)
    process = subprocess.Popen([sys.executable, "-c", SAVING, *map(str, paths), how])
    found = set()
    while process.poll() is None:
        memoriser, _, _ = load_folder(paths[2])
        found.add(memoriser.network.spec.n_layers)
    assert process.returncode == 0
    assert found == {3, 5}
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "target"}
