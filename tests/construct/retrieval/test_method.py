"""The whole construction: every label right, natively in PyTorch, for every kind of data."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from byheart.construct.retrieval import search
from byheart.data.dataset import Dataset
from byheart.data.generators import associations, grid_vectors, random_tokens
from byheart.errors import AssumptionViolated, ConflictingLabels, UsageError
from byheart.network.memoriser import UNKNOWN
from byheart.network.transformer.architecture import Attention, FeedForward, Head, Transformer
from byheart.network.transformer.interpreter import interpret
from byheart.network.transformer.module import run_module, to_module
from byheart.program.construction import Construction
from tests.construct.retrieval.layouts import memorise
from tests.examples import examples
from tests.refusal import refused


def _build(data: Dataset, seed: int = 0, **options: object) -> Construction:
    return memorise(data, options, seed)


def _n_wrong(built: Construction, data: Dataset) -> int:
    answers = built.memoriser.answer(built.memoriser.encode(data.inputs), backend="module")
    if data.task == "seq-to-seq":
        answers = np.concatenate([row[-n:] for row, n in zip(answers, data.inputs.lengths, strict=True)])
    return int((answers != data.labels).sum())


@pytest.fixture
def dual_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search dual tables alone, however small the data."""
    monkeypatch.setattr(search, "_SEGMENTS", ())
    monkeypatch.setattr(search, "_LEAST_DUAL", 1)
    search.find_layout.cache_clear()
    yield
    search.find_layout.cache_clear()


@examples(80)
@given(
    n=st.sampled_from([9]),  # few shapes and many seeds: the search of a layout is kept, the draw is not
    seq_len=st.sampled_from([1, 3]),
    n_classes=st.sampled_from([7]),
    task=st.sampled_from(["next-token", "seq-to-seq", "set"]),
    precision=st.sampled_from(["float64", "float32"]),
    seed=st.integers(0, 10**6),
)
def test_memorises_any_small_data(
    n: int, seq_len: int, n_classes: int, task: str, precision: str, seed: int
) -> None:
    data = random_tokens(n, seq_len, 50, n_classes, seed=seed, task=task)
    built = _build(data, precision=precision)
    assert _n_wrong(built, data) == 0
    assert built.memoriser.network.precision == precision


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 10, 300, 1500])
def test_memorises_grids(n: int, precision: str) -> None:
    data = grid_vectors(n, seed=n)
    assert _n_wrong(_build(data, precision=precision), data) == 0


@pytest.mark.parametrize("n_classes", [2, 5, 256, 65_536])
def test_memorises_few_and_many_classes(n_classes: int) -> None:
    data = grid_vectors(500, n_classes=n_classes, seed=1)
    assert _n_wrong(_build(data), data) == 0


@pytest.mark.usefixtures("dual_only")
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    "data",
    [
        grid_vectors(400, seed=1),
        random_tokens(400, n_vocab=50, seed=1),
        random_tokens(400, n_vocab=50, seq_len=5, seed=1, ordered=False),
        random_tokens(400, n_vocab=50, seq_len=5, seed=1, task="set"),
        random_tokens(400, n_vocab=50, seq_len=11, seed=1, min_len=1),
        random_tokens(400, n_vocab=5000, seq_len=1, seed=1),
    ],
    ids=["grid", "tokens", "bags", "sets", "ragged", "length 1"],
)
def test_dual_tables_memorise(data: Dataset, precision: str) -> None:
    built = _build(data, precision=precision)
    assert built.notes["layout"] == "dual table"
    assert built.memoriser.network.extra is not None
    assert _n_wrong(built, data) == 0


STRUCTURED = {
    "common prefix": np.concatenate([np.full((800, 4), 7), np.indices((800,)).T * [[0, 1]][0][1]], axis=1),
    "one token varies": np.concatenate([np.arange(500)[:, None], np.full((500, 5), 3)], axis=1),
    "all words": np.array(list(product(range(3), repeat=6))),
    "all permutations": np.array(list(permutations(range(6)))),
    "all pairs": np.indices((25, 25)).reshape(2, -1).T,
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_data_are_memorised_too(name: str) -> None:
    inputs = STRUCTURED[name].astype(np.int64)
    labels = np.random.default_rng(0).integers(0, 16, size=len(inputs))
    data = Dataset.from_arrays(inputs, labels, label_names=[str(c) for c in range(16)])
    assert _n_wrong(_build(data), data) == 0


def test_all_bigrams() -> None:
    data = associations(30, seed=2)
    assert _n_wrong(_build(data), data) == 0


def test_the_order_of_a_set_does_not_matter() -> None:
    data = random_tokens(60, n_vocab=40, seq_len=5, seed=4, task="set")
    memoriser = _build(data).memoriser
    encoded = memoriser.encode(data.inputs)
    turned = np.roll(encoded, 2, axis=1)
    assert (memoriser.answer(turned, backend="module") == memoriser.answer(encoded, backend="module")).all()


def test_the_order_of_text_matters() -> None:
    data = Dataset.from_pairs(
        [("ab", "x"), ("ba", "y"), ("aab", "y"), ("aba", "x"), ("baa", "z")], tokenizer="char"
    )
    assert _n_wrong(_build(data), data) == 0


def test_the_last_token_of_a_bag_matters() -> None:
    inputs = [[1, 1, 2], [1, 2, 1], [2, 2, 1], [1, 2, 2]]
    data = Dataset.from_arrays(inputs, [0, 1, 2, 3], ordered=False)
    assert _n_wrong(_build(data), data) == 0


@pytest.mark.parametrize("task", ["next-token", "seq-to-seq"])
def test_same_seed_same_weights(task: str) -> None:
    data = random_tokens(100, n_vocab=20, seed=1, task=task)
    first, second = (_build(data, seed=5).memoriser.network for _ in range(2))
    other = _build(data, seed=6).memoriser.network
    pairs = list(zip(first.parameters(), second.parameters(), strict=True))
    assert all((one == two).all() for (_, one), (_, two) in pairs)
    differs = [
        one.shape != two.shape or (one != two).any()
        for (_, one), (_, two) in zip(first.parameters(), other.parameters(), strict=False)
    ]
    assert any(differs)


def _shuffled(network: Transformer, rng: np.random.Generator) -> Transformer:
    """The same network with its units and its residual channels in another order."""
    turn = rng.permutation(network.model_width)
    layers = []
    for layer in network.layers:
        if isinstance(layer, FeedForward):
            units = rng.permutation(layer.hidden_width)
            layers.append(
                FeedForward(
                    layer.w1[units][:, turn], layer.b1[units], layer.w2[turn][:, units], layer.b2[turn]
                )
            )
        elif isinstance(layer, Attention):
            layers.append(
                Attention(tuple(Head(h.value[:, turn], h.output[turn]) for h in layer.heads), layer.kind)
            )
        else:
            layers.append(layer)
    return Transformer(
        network.w_in[turn],
        tuple(layers),
        network.w_out[:, turn],
        network.seq_len,
        network.embedding,
        network.pad,
        network.extra,
    )


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_floats_round_nowhere(precision: str) -> None:
    """Other orders of summation, batch sizes and threads give the same bits, and the rationals agree."""
    data = grid_vectors(1500, seed=3)
    network = _build(data, precision=precision).memoriser.network
    encoded = np.asarray(data.inputs.values)
    outputs = run_module(network, encoded, last_only=True)
    assert (outputs == data.labels + 1).all()
    assert (
        run_module(_shuffled(network, np.random.default_rng(0)), encoded, last_only=True) == outputs
    ).all()
    assert (run_module(network, encoded[:20], last_only=True, batch_size=1) == outputs[:20]).all()
    assert (run_module(network, encoded, last_only=True, batch_size=7 * 64) == outputs).all()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert (run_module(network, encoded, last_only=True) == outputs).all()
    finally:
        torch.set_num_threads(threads)
    assert interpret(network, encoded[0])[-1][0] == outputs[0]


def test_tokens_are_dropped_only_once_they_no_longer_matter() -> None:
    data = random_tokens(200, n_vocab=20, seed=1)
    module = to_module(_build(data).memoriser.network)
    batch = torch.from_numpy(data.inputs.pad(0))
    with torch.no_grad():
        assert (module(batch)[:, -1] == module(batch, last_only=True)[:, -1]).all()


def test_reject_bits_turn_unknown_inputs_away() -> None:
    """With 8 bits about 1 in 256 unknown inputs is answered; 20,000 of them: 78, and 140 is seven deviations more."""
    data = random_tokens(300, n_vocab=50, seed=1)
    built = _build(data, reject_bits=8)
    assert _n_wrong(built, data) == 0
    unknown = random_tokens(20_000, n_vocab=50, seed=2)
    answers = built.memoriser.answer(built.memoriser.encode(unknown.inputs), backend="module")
    n_answered = int((answers != UNKNOWN).sum())
    assert 20 < n_answered < 140
    none = _build(data).memoriser
    assert (none.answer(none.encode(unknown.inputs), backend="module") != UNKNOWN).mean() > 0.9


def test_notes_say_what_was_done() -> None:
    notes = _build(grid_vectors(200, seed=1)).notes
    assert notes["hash"] == "usual hash"
    assert str(notes["why"]).startswith("the smallest of all layouts searched")
    assert notes["contexts"] == 200


def test_refuses_what_it_cannot_vouch_for() -> None:
    with refused(UsageError, "problem"):
        _build(grid_vectors(5, seed=1), reject_bits=-1)
    with refused(UsageError, "problem"):
        _build(grid_vectors(5, seed=1), precision="float16")
    with refused(UsageError, "problem"):
        _build(grid_vectors(5, seed=1), depth=3)
    with pytest.raises(AssumptionViolated):
        _build(grid_vectors(5, seed=1, ordered=True))
    conflict = Dataset.from_pairs([("a", "x"), ("a", "y")], tokenizer="char", on_conflict="keep")
    with pytest.raises(ConflictingLabels):
        _build(conflict)
