"""Small training sets and mixed stacks, one per family, that several tests train on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byheart.measure.families import ModelConfig
from byheart.measure.training_set import (
    TrainingSet,
    training_set_of_documents,
    training_set_of_labels,
    training_set_of_values,
)


def pairs(n_vocab: int, seed: int) -> TrainingSet:
    """Every pair of tokens with a random next token (DPC24)."""
    grid = np.indices((n_vocab, n_vocab)).reshape(2, -1).T
    labels = np.random.default_rng(seed).integers(0, n_vocab, len(grid))
    return training_set_of_labels(grid, labels, n_classes=n_vocab, n_vocab=n_vocab)


def sentences(n_samples: int, seed: int, n_vocab: int = 12, seq_len: int = 4) -> TrainingSet:
    """Random token sequences with three classes, read at the first token (KS25)."""
    rng = np.random.default_rng(seed)
    inputs = rng.integers(0, n_vocab, (n_samples, seq_len))
    return training_set_of_labels(
        inputs, rng.integers(0, 3, n_samples), n_classes=3, n_vocab=n_vocab, read="first"
    )


def stories(n_documents: int, seed: int, n_vocab: int = 7) -> TrainingSet:
    """Short documents that share prefixes (MFT24)."""
    rng = np.random.default_rng(seed)
    documents = rng.integers(0, n_vocab, (n_documents, 5))
    documents[:, 0] = rng.integers(0, 2, n_documents)
    return training_set_of_documents(documents, n_vocab)


def clouds(n_samples: int, seed: int, seq_len: int = 5) -> TrainingSet:
    """Random vectors with labels ±1 (KS25's study of the sequence length)."""
    rng = np.random.default_rng(seed)
    return training_set_of_values(rng.random((n_samples, seq_len, 6)), rng.choice([-1.0, 1.0], n_samples))


@dataclass(frozen=True)
class Case:
    """Eight models of mixed sizes, each with its own data."""

    name: str
    models: tuple[ModelConfig, ...]
    training_sets: tuple[TrainingSet, ...]


def _mixed(
    name: str, family: str, sizes: list[dict[str, int]], training_sets: list[TrainingSet], **options: str
) -> Case:
    return Case(name, tuple(ModelConfig(family, size, options) for size in sizes), tuple(training_sets))


def _attention_sizes(mlp: bool) -> list[dict[str, int]]:
    return [
        {
            "dim": 3 + k % 4,
            "head_dim": 2 + (3 * k) % 5,
            "n_heads": 1 + (5 * k) % 7,
            "mlp_width": (2 * k) * mlp,
        }
        for k in range(8)
    ]


CASES = [
    _mixed(
        "uniform-attention",
        "uniform-attention",
        [{"n_blocks": 1 + (3 * k) % 5, "width": 2 + k % 3, "hidden_width": 4 + k} for k in range(8)],
        [sentences(20 + 3 * k, k) for k in range(8)],
    ),
    _mixed(
        "uniform-attention, frozen embedding, positions",
        "uniform-attention",
        [{"n_blocks": 1 + k % 3, "width": 2 + k % 3, "dim": 4 + k % 2} for k in range(8)],
        [sentences(20, k) for k in range(8)],
        embedding="frozen",
        positions="learned",
    ),
    _mixed(
        "uniform-attention, vectors",
        "uniform-attention",
        [{"n_blocks": 1 + k % 4} for k in range(8)],
        [clouds(10 + k, k, seq_len=5) for k in range(8)],
    ),
    _mixed(
        "one-layer-decoder",
        "one-layer-decoder",
        [{"hidden_width": 3 + 2 * k, "dim": 4 + 2 * (k % 3)} for k in range(8)],
        [stories(15 + k, k, n_vocab=5 + k % 3) for k in range(8)],
    ),
    *(
        _mixed(
            f"attention-only, {variant}",
            "attention-only",
            _attention_sizes(False),
            [pairs(6, k) for k in range(8)],
            variant=variant,
            form="table",
        )
        for variant in ("as-written", "position-first")
    ),
    *(
        _mixed(
            f"attention-only, as-coded, {'with' if maps else 'without'} shared maps",
            "attention-only",
            [
                {"dim": 3 + k % 4, "head_dim": 3 + (k + maps) % 4, "n_heads": 1 + (5 * k) % 7}
                for k in range(8)
            ],
            [pairs(6, k) for k in range(8)],
            variant="as-coded",
            form="table",
        )
        for maps in (True, False)
    ),
    _mixed(
        "attention-only, direct",
        "attention-only",
        _attention_sizes(False),
        [pairs(5 + k % 2, k) for k in range(8)],
        form="direct",
    ),
    _mixed("attention-only, MLP", "attention-only", _attention_sizes(True), [pairs(6, k) for k in range(8)]),
    _mixed(
        "gpt",
        "gpt",
        [
            {
                "dim": 4 + k % 3,
                "n_layers": 1 + k % 3,
                "n_heads": 1 + k % 2,
                "head_dim": 2 + k % 3,
                "hidden_width": 5 + k,
            }
            for k in range(8)
        ],
        [stories(12 + k, k) for k in range(8)],
    ),
]
