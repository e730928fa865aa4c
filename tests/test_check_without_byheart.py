"""`examples/check_without_byheart.py` agrees with `verify`: on random models of every exact construction, and on tampered ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import byheart as bh
from byheart.construct import registry
from byheart.data.generators import grid_vectors, random_tokens
from byheart.errors import AssumptionViolated, ByheartError

SCRIPT = Path(__file__).parents[1] / "examples" / "check_without_byheart.py"
EXACT = [name for name in registry.names() if "exact" in registry.get(name).precisions]
CASES = [
    pytest.param(name, task, marks=[pytest.mark.slow] * (number > 0))
    for name in EXACT
    for number, task in enumerate(registry.get(name).tasks)
]
ON_ONE_VECTOR = ("two-layer-relu", "vardi-2022", "park-2021")


def check(folder: Path, data: Path) -> tuple[int, str]:
    """Exit status and last line, by an interpreter that finds no installed package."""
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(folder), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()[-1]


def random_data(method: str, task: str, seed: int) -> bh.Dataset:
    """Ids or vectors by turns, as the construction takes them."""
    rng = np.random.default_rng(seed)
    n_samples = int(rng.integers(2, 9))
    seq_len = 1 if method in ON_ONE_VECTOR else int(rng.integers(1, 4))
    if seed % 2:
        return grid_vectors(n_samples, seq_len, 2, 3, levels=64, seed=seed, task=task)
    return random_tokens(n_samples, seq_len, 16, 3, seed=seed, task=task, ordered=task != "set")


def write(data: bh.Dataset, path: Path) -> None:
    ids = getattr(data.inputs, "ids", None)
    inputs = data.inputs.values if ids is None else ids.reshape(data.n_samples, -1)
    labels = np.array([int(data.label_names[label]) for label in data.labels])
    shape = inputs.shape[:2] if data.task == "seq-to-seq" else (data.n_samples,)
    np.savez(path, inputs=inputs, labels=labels.reshape(shape))


def agreed(method: str, task: str, seed: int, folder: Path) -> int:
    """1 if checker and verifier agree on a model of random data; 0 if the construction refused the data."""
    data = random_data(method, task, seed)
    folder.mkdir()
    write(data, folder / "data.npz")
    try:
        bh.compile(data, method=method, precision="exact", seed=seed).save(folder / "model")
    except AssumptionViolated:
        return 0
    assert check(folder / "model", folder / "data.npz") == (0, f"{data.n_samples} right, 0 wrong")
    return 1


@pytest.mark.parametrize(("method", "task"), CASES)
def test_it_agrees_on_random_models(method: str, task: str, tmp_path: Path) -> None:
    assert sum(agreed(method, task, seed, tmp_path / str(seed)) for seed in (0, 1)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("method", "task"), CASES)
def test_it_agrees_on_two_hundred_random_models(method: str, task: str, tmp_path: Path) -> None:
    n_models = -(-200 // len(CASES))
    found = 0
    for seed in range(3 * n_models):
        found += agreed(method, task, seed, tmp_path / str(seed))
        if found == n_models:
            break
    assert found == n_models


# --- tampered folders -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def capitals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("capitals")
    data = folder / "capitals.csv"
    rows = ["France,Paris", "Georgia,Tbilisi", "Chad,N'Djamena", "Peru,Lima", "Cuba,Havana"]
    data.write_text("key,value\n" + "\n".join(rows) + "\n", encoding="utf-8")
    bh.compile(bh.Dataset.from_csv(data), method="kajitsuka-sato-2025", precision="exact").save(
        folder / "model"
    )
    return folder / "model", data


def test_it_reads_texts_of_different_lengths(capitals: tuple[Path, Path]) -> None:
    assert check(*capitals) == (0, "5 right, 0 wrong")


def change_json(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        path = folder / "model.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        change(document)
        path.write_text(json.dumps(document), encoding="utf-8")

    return tamper


def change_tensor(name: str, place: int) -> Callable[[Path], None]:
    """Flip the lowest bit of one entry of a tensor."""

    def tamper(folder: Path) -> None:
        path = folder / "model.safetensors"
        raw = bytearray(path.read_bytes())
        length = int.from_bytes(raw[:8], "little")
        start, end = json.loads(raw[8 : 8 + length])[name]["data_offsets"]
        size = {"limbs": 8}.get(name, 1)
        at = 8 + length + start + (place * size) % (end - start)
        raw[at] ^= 2 if name == "limbs" else 1
        path.write_bytes(raw)

    return tamper


def cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


TAMPERINGS: dict[str, Callable[[Path], None]] = {
    "labels swapped": change_json(lambda document: document["labels"].reverse()),
    "a label renamed": change_json(lambda document: document["labels"].__setitem__(0, "Rome")),
    "a label missing": change_json(lambda document: document["labels"].pop()),
    "two tokens swapped": change_json(lambda document: document["tokenizer"]["vocabulary"].reverse()),
    "a token renamed": change_json(lambda document: document["tokenizer"]["vocabulary"].__setitem__(0, "@")),
    "a layer more": change_json(
        lambda document: document["architecture"]["layers"][0].__setitem__("n_layers", 99)
    ),
    "a run of layers missing": change_json(lambda document: document["architecture"]["layers"].pop()),
    "shorter sequences": change_json(lambda document: document["architecture"].__setitem__("seq_len", 3)),
    "another padding": change_json(lambda document: document["architecture"].__setitem__("pad", 0)),
    "positions denied": change_json(
        lambda document: document["architecture"].__setitem__("positions", False)
    ),
    "a wider stream": change_json(lambda document: document["architecture"].__setitem__("model_width", 11)),
    "a smaller vocabulary": change_json(lambda document: document["architecture"].__setitem__("n_vocab", 2)),
    "weights cut short": cut_short,
    **{f"sign {place}": change_tensor("negative", place) for place in (0, 40)},
    **{f"column {place}": change_tensor("columns", place) for place in (50, 90)},
    **{f"exponent {place}": change_tensor("exponents", place) for place in (100, 350)},
    **{f"limb {place}": change_tensor("limbs", place) for place in (100, 350)},
    "rows counted wrongly": change_tensor("row_counts", 5),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_it_notices_tampering_as_the_verifier_does(
    name: str, capitals: tuple[Path, Path], tmp_path: Path
) -> None:
    model, data = capitals
    shutil.copytree(model, tmp_path / "model")
    TAMPERINGS[name](tmp_path / "model")
    status, _ = check(tmp_path / "model", data)
    assert status == 3
    try:
        holds = bh.verify(bh.load(tmp_path / "model", check=False), bh.Dataset.from_csv(data)).holds
    except ByheartError:
        holds = False
    assert not holds


def test_floats_are_not_called_checked(tmp_path: Path) -> None:
    data = random_tokens(6, 2, 16, 3, seed=0)
    write(data, tmp_path / "data.npz")
    bh.compile(data, method="retrieval", precision="float64").save(tmp_path / "model")
    assert check(tmp_path / "model", tmp_path / "data.npz")[0] == 2
