"""The shape of a network says what its parameters are, for every family, and counts them by arithmetic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from byheart.network.families import FAMILIES, Network, read_spec
from byheart.network.size import size_of_network, size_of_spec
from byheart.network.transformer.spec import LayerRun, TransformerSpec
from byheart.pipeline import load
from byheart.records.fields import Fields

FIXTURES = sorted(
    path.parent for path in (Path(__file__).parents[1] / "storage" / "fixtures").glob("*/model.json")
)


@pytest.fixture(scope="module", params=FIXTURES, ids=lambda path: path.name)
def network(request: pytest.FixtureRequest) -> Network:
    return load(request.param).network


def test_a_spec_names_and_counts_what_the_network_has(network: Network) -> None:
    spec = network.spec
    found = [(name, tuple(weights.shape)) for name, weights in network.parameters()]
    assert list(spec.shapes()) == found
    assert spec.n_arrays == len(found)
    assert spec.n_rows == sum(shape[0] for _, shape in found)
    assert spec.parameters_dense == sum(int(np.prod(shape)) for _, shape in found)
    for name in ("precision", "seq_len", "dim", "n_vocab", "pad"):
        assert getattr(spec, name) == getattr(network, name), name
    assert network.takes_ids == (spec.n_vocab is not None)


def test_a_spec_survives_json_and_builds_the_same_network(network: Network) -> None:
    spec = network.spec
    again = read_spec(Fields(spec.to_json(), "a test"))
    assert again == spec
    built = again.build((weights for _, weights in network.parameters()), network.files())
    assert built.spec == spec
    assert built.traits() == network.traits()
    assert size_of_network(built) == size_of_network(network)


def test_every_family_has_a_saved_folder() -> None:
    assert {load(path).network.spec.family for path in FIXTURES} == set(FAMILIES)


def test_a_trillion_layers_cost_nothing() -> None:
    run = LayerRun("feed-forward", 10**12, (3,))
    heads = LayerRun("attention", 1, (2, 5), "uniform")
    spec = TransformerSpec(
        "float64", 4, 2, 3, 1, None, False, None, (run, heads, run, LayerRun("sum-pool", 1))
    )
    size = size_of_spec(spec, n_nonzero=7)
    assert size.depth == 2 * 10**12 + 1
    assert size.width == 7
    assert size.parameters_dense == 3 * 2 + 2 * 10**12 * (9 + 3 + 9 + 3) + 2 * (2 + 5) * 3 + 3
    assert size.total_bits == 64 * size.parameters_dense
    small = replace(spec, runs=(replace(run, n_layers=2), heads))
    assert small.parameters_dense == sum(int(np.prod(shape)) for _, shape in small.shapes())
