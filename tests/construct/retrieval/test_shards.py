"""Shards: no key leaves its own, and where or in which order they are solved does not change a weight."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import byheart as bh
from byheart.construct.retrieval import out_of_core
from byheart.data import piece_reader
from byheart.data.generators import random_tokens
from byheart.errors import ConflictingLabels, UsageError
from byheart.pipeline import compile_in_shards
from byheart.process.task_runner import Workers
from tests.construct.retrieval.layouts import LAYOUTS, memorise
from tests.refusal import refused

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_reader, "PIECE_NUMBERS", 3000)
    monkeypatch.setattr(piece_reader, "PIECE_ROWS", 400)


def save_tokens(path: Path, n_samples: int = 1500) -> Path:
    rng = np.random.default_rng(0)
    inputs, labels = rng.integers(0, 500, size=(n_samples, 5)), rng.integers(0, 16, size=n_samples)
    inputs[-1], labels[-1] = inputs[0], labels[0]  # one context twice, in different pieces
    np.savez(path, inputs=inputs, labels=labels)
    return path


def save_skewed(path: Path) -> Path:
    rng = np.random.default_rng(2)
    labels = np.minimum(rng.geometric(0.3, size=4000) - 1, 63)
    np.savez(path, inputs=rng.integers(0, 500, size=(4000, 5)), labels=labels)
    return path


def save_grid(path: Path) -> Path:
    rng = np.random.default_rng(1)
    inputs = rng.integers(-3, 12, size=(1200, 4, 3)) / 4
    np.savez(path, inputs=inputs, labels=rng.integers(3, 9, size=1200))
    return path


def save_table(path: Path) -> Path:
    rows = [f"name {n * 7919 % 100003},{'xyz'[n % 3]}{n % 11}" for n in range(900)]
    path.write_text("\n".join(["key,value", *rows]) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("name", [name for name in LAYOUTS if "shards" in name])
def test_no_key_leaves_its_shard(name: str) -> None:
    layout = LAYOUTS[name]
    rng = np.random.default_rng(0)
    fields = np.stack([rng.integers(0, field.base, size=5000) for field in layout.hashed_fields], axis=1)
    shard = layout.addresses(fields).rows // layout.shard_rows
    assert (shard == layout.first_rows(fields)[:, None] // layout.shard_rows).all()
    assert len(np.unique(shard)) == layout.n_shards


@pytest.mark.parametrize("precision", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_a_model_of_several_shards_is_right(precision: str) -> None:
    data = random_tokens(1500, 5, 50, seed=0)
    built = memorise(data, {"shards": 3, "precision": precision}, 0)
    answers = built.memoriser.answer(built.memoriser.encode(data.inputs))
    assert (answers == data.labels).all()


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("save", [save_tokens, save_skewed, save_grid, save_table])
def test_pieces_on_disk_give_the_weights_of_the_data_in_memory(save: Any, tmp_path: Path) -> None:
    path = save(tmp_path / ("data.csv" if save is save_table else "data.npz"))
    # without reject bits codes pay for so few facts
    options: dict[str, Any] = {"reject_bits": 0} if save is save_skewed else {}
    whole = bh.compile(path, method="retrieval", **options, shards=3)
    found = compile_in_shards(path, n_shards=3, work=tmp_path / "work", **options)
    whole.save(tmp_path / "whole")
    found.save(tmp_path / "found")
    assert whole.certificate == found.certificate
    assert "rare_fields" in found.record["notes"] or save is not save_skewed
    for name in ("model.safetensors", "model.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "found" / name).read_bytes()


@pytest.mark.usefixtures("small_pieces")
def test_what_was_finished_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_tokens(tmp_path / "data.npz")
    solve, asked = out_of_core.solve_shard, []

    def stop_at_the_third(layout: Any, shard: int, *rest: Any) -> Any:
        asked.append(shard)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return solve(layout, shard, *rest)

    monkeypatch.setattr(out_of_core, "solve_shard", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        compile_in_shards(path, n_shards=4, work=tmp_path / "work")
    again = compile_in_shards(path, n_shards=4, work=tmp_path / "work")
    assert asked[:5] == [0, 1, 2, 2, 3]
    assert again.certificate == bh.compile(path, method="retrieval", shards=4).certificate


@pytest.mark.usefixtures("small_pieces")
def test_a_folder_serves_one_compilation_only(tmp_path: Path) -> None:
    path = save_tokens(tmp_path / "data.npz")
    compile_in_shards(path, n_shards=2, work=tmp_path / "work")
    with refused(UsageError, "path", "differing"):
        compile_in_shards(path, n_shards=3, work=tmp_path / "work")
    with refused(UsageError, "path", "differing"):
        compile_in_shards(path, n_shards=2, work=tmp_path / "work", seed=1)
    with refused(UsageError, "path"):
        compile_in_shards(path, n_shards=2, work=tmp_path)


@pytest.mark.usefixtures("small_pieces")
def test_labels_that_disagree_are_found_across_pieces(tmp_path: Path) -> None:
    path = save_tokens(tmp_path / "data.npz")
    with np.load(path) as arrays:
        inputs, labels = arrays["inputs"], arrays["labels"].copy()
    labels[-1] = (labels[-1] + 1) % 16
    np.savez(path, inputs=inputs, labels=labels)
    with refused(ConflictingLabels, "rows", n_conflicts=1):
        compile_in_shards(path, n_shards=2, work=tmp_path / "work")
    again = np.concatenate([labels, labels[-1:]])  # both rows are counted, as in one piece
    np.savez(path, inputs=np.concatenate([inputs, inputs[-1:]]), labels=again)
    with refused(ConflictingLabels, "rows", n_conflicts=2):
        compile_in_shards(path, n_shards=2, work=tmp_path / "again")


@pytest.mark.usefixtures("small_pieces")
def test_a_sample_is_called_a_sample(tmp_path: Path) -> None:
    model = compile_in_shards(
        save_tokens(tmp_path / "data.npz"), n_shards=2, work=tmp_path / "work", sample=50
    )
    assert model.certificate is not None
    assert (model.certificate.checked, model.certificate.sampled) == (50, 50)
    assert "sample of 50 of 1,500" in str(model.certificate)


OPTIONS = ("--method", "retrieval", "--shards", "8", "--json")
COMPILE = (sys.executable, "-m", "byheart", "compile", *OPTIONS)


def at_work(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until some shard, but not every one, is solved."""
    while not list(folder.rglob("shard-*.npz")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_killed_compilation_goes_on_to_the_same_bytes(n_workers: int, tmp_path: Path) -> None:
    path = save_tokens(tmp_path / "data.npz", 20_000)
    command = [
        *COMPILE,
        str(path),
        "--workers",
        str(n_workers),
        "--work",
        str(tmp_path / "work"),
        "-o",
        str(tmp_path / "found"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    at_work(tmp_path / "work", process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "found").exists()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    bh.compile(path, method="retrieval", shards=8).save(tmp_path / "whole")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("found", "whole")]
    assert weights[0] == weights[1]


@pytest.fixture(scope="module")
def two_machines() -> Iterator[str]:
    pytest.importorskip("ray", reason="needs byheart[ray]")
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    yield cluster.address
    cluster.shutdown()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("n_killed", [0, 1])
def test_a_cluster_gives_the_same_bytes(two_machines: str, n_killed: int, tmp_path: Path) -> None:
    path = save_tokens(tmp_path / "data.npz", 200_000)  # so that solving a shard takes a moment
    command = [
        *COMPILE,
        str(path),
        "--cluster",
        two_machines,
        "--work",
        str(tmp_path / "work"),
        "-o",
        str(tmp_path / "found"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    for _ in range(n_killed):
        at_work(tmp_path / "work", process)
        victims = []
        while not victims:
            assert process.poll() is None, "no worker was left to kill"
            victims = ray_workers()
        for worker in victims:
            os.kill(worker, signal.SIGKILL)
    assert process.wait() == 0
    bh.compile(path, method="retrieval", shards=8).save(tmp_path / "whole")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("found", "whole")]
    assert weights[0] == weights[1]


def ray_workers() -> list[int]:
    """Process ids of Ray's workers that are solving a shard."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"ray::_solve_one" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.slow
def test_processes_give_the_same_bytes(tmp_path: Path) -> None:
    path = save_tokens(tmp_path / "data.npz")
    alone = compile_in_shards(path, n_shards=2, work=tmp_path / "alone")
    together = compile_in_shards(path, n_shards=2, work=tmp_path / "together", workers=Workers(2))
    assert alone.certificate == together.certificate
