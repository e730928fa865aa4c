"""Small inputs that would take everything, each refused by a budget, at once, with the number named."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import byheart as bh
from byheart.cli.runs import command as runs
from byheart.errors import ByheartError, CorruptModel
from byheart.measure.store import Store
from byheart.network.exact.dyadic import Dyadic, SparseMatrix
from byheart.storage.sparse_weights import encode_sparse
from byheart.storage.tensor_file import write_tensors
from tests.measure.test_store import record

FIXTURES = Path(__file__).resolve().parents[1] / "storage" / "fixtures"
MOST_SECONDS = 5.0  # of the processor; each took many times that, or gigabytes
MOST_BYTES = 300 << 20


@pytest.fixture(autouse=True)
def little() -> Iterator[None]:
    """Whatever a test does must take little time and memory."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield
    assert time.process_time() - start < MOST_SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST_BYTES


@pytest.fixture
def exact(tmp_path: Path) -> Path:
    bh.load(FIXTURES / "transformer-exact").save(tmp_path / "model")
    return tmp_path / "model"


def change(folder: Path, **architecture: Any) -> None:
    document = json.loads((folder / "model.json").read_text())
    document["architecture"] |= architecture
    (folder / "model.json").write_text(json.dumps(document))


def test_a_large_id_at_predict() -> None:
    model = bh.load(FIXTURES / "retrieval-tokens")
    assert model.predict([[500_000_000, 1, 2]]) == [None]


@pytest.mark.parametrize(
    "sizes", [{"dim": 2**16}, {"seq_len": 2**24}, {"seq_len": 2**60}, {"model_width": 2**16}]
)
def test_sizes_that_the_weights_do_not_have(exact: Path, sizes: dict[str, int]) -> None:
    (exact / "certificate.json").unlink()
    change(exact, **sizes)
    with pytest.raises(ByheartError):
        bh.load(exact).predict(["capital of France"])


def test_many_exponents(exact: Path) -> None:
    """55 kB of entries whose exponents are as large as they may be: shifted to one scale they would take gigabytes."""
    entries = {(0, column): Dyadic(1, 2**20 if column % 2 else -(2**20)) for column in range(5000)}
    write_tensors(exact / "model.safetensors", encode_sparse([SparseMatrix((1, 5000), entries)]))
    with pytest.raises(CorruptModel):
        bh.load(exact)


def test_a_document_of_nothing_but_brackets(exact: Path) -> None:
    (exact / "model.json").write_bytes(b"[" + b"[]," * (5 << 20) + b"0]")
    with pytest.raises(CorruptModel, match="lists and objects"):
        bh.load(exact)


def test_fewer_labels_than_logits(tmp_path: Path) -> None:
    bh.load(FIXTURES / "decoder-attention").save(tmp_path / "model")
    document = json.loads((tmp_path / "model" / "model.json").read_text())
    document["labels"] = document["labels"][:1]
    (tmp_path / "model" / "model.json").write_text(json.dumps(document))
    (tmp_path / "model" / "certificate.json").unlink()
    with pytest.raises(CorruptModel, match="there are 1 labels; the network has 9 logits"):
        bh.load(tmp_path / "model").predict(["the", "the cat", "a dog"])


def test_the_runs_of_a_read_only_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        store.add(record(0))
    path.chmod(0o444)
    found = CliRunner().invoke(runs, ["list", "--store", str(path), "--json"], catch_exceptions=False)
    assert len(json.loads(found.stdout)["runs"]) == 1


def test_a_formula_in_a_figures_record_is_drawn_as_it_stands() -> None:
    pytest.importorskip("matplotlib")
    from byheart.reproduce.figure_files import read_record
    from byheart.reproduce.plots import as_svg

    record = read_record(Path(__file__).resolve().parents[2] / "results" / "beyond-bits.json")
    panels = [replace(panel, title="$\\frac{ is no formula$") for panel in record.panels]
    assert "is no formula" in as_svg(replace(record, panels=panels))


def test_an_array_of_large_ids(tmp_path: Path) -> None:
    ids = np.arange(12).reshape(4, 3) * 10**14
    np.savez(tmp_path / "large.npz", inputs=ids, labels=np.arange(4))
    data = bh.Dataset.read(tmp_path / "large.npz")
    assert data.n_samples == 4
