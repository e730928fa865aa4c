"""Small data sets of every task at random, for what must hold on any data."""

from __future__ import annotations

from random import Random

import numpy as np

from byheart.data.dataset import Dataset, Task
from byheart.errors import ConflictingLabels

TASKS: tuple[Task, ...] = ("next-token", "seq-to-seq", "set", "distribution")


def random_data(rng: Random, task: Task | None = None) -> Dataset:
    """A small data set of a task, of any unless given: token ids of one or several lengths, vectors on a grid, or documents."""
    while True:
        try:
            return _draw(rng, task or rng.choice(TASKS))
        except ConflictingLabels:  # labels that leave no sample: draw anew
            continue


def structured_data(rng: Random, task: Task) -> Dataset:
    """Data that are far easier than others of their shape: repeated documents or samples, few possible sequences, thresholds."""
    n_classes, n_times = rng.randint(2, 4), rng.randint(1, 5)
    if task == "distribution":
        # the same successors after every word, again and again
        n_first, n_next = (rng.randint(1, 6), rng.randint(1, 4))
        pairs = [f"c{i} s{j}" for i in range(n_first) for j in range(n_next)]
        return Dataset.from_documents(pairs * n_times, tokenizer="word")
    if rng.random() < 0.4:  # one-dimensional thresholds
        values = np.arange(rng.randint(2, 30), dtype=float).reshape(-1, 1, 1)
        labels = (values[:, 0, 0] > rng.randrange(len(values))).astype(int)
        shape = (-1, 1) if task == "seq-to-seq" else (-1,)
        return Dataset.from_arrays(values, labels.reshape(shape), task=task, label_names=["0", "1"])
    length = rng.randint(1, 3)  # every sequence of two tokens, with labels that are a rule
    rows = [[(number >> place) & 1 for place in range(length)] for number in range(2**length)] * n_times
    many = task == "seq-to-seq"
    labelled = [(row, [x % n_classes for x in row] if many else sum(row) % n_classes) for row in rows]
    return Dataset.from_pairs(labelled, task=task, label_names=[str(i) for i in range(n_classes)])


def _draw(rng: Random, task: Task) -> Dataset:
    n_samples, n_classes, vocab = rng.randint(2, 8), rng.randint(2, 4), rng.randint(3, 9)
    if task == "distribution":
        lengths = [rng.randint(2, 4) for _ in range(n_samples)]
        return Dataset.from_documents([" ".join(rng.choice("abcde") for _ in range(n)) for n in lengths])
    if rng.random() < 0.3:
        size = (n_samples, rng.choice((1, 3)), rng.choice((1, 4)))
        values = np.array([rng.randint(-50, 50) for _ in range(size[0] * size[1] * size[2])], dtype=float)
        shape = (n_samples, size[1]) if task == "seq-to-seq" else (n_samples,)
        labels = np.array([rng.randrange(n_classes) for _ in range(int(np.prod(shape)))]).reshape(shape)
        data = Dataset.from_arrays(values.reshape(size), labels, task=task, on_conflict="keep")
        return data.resolved("first")
    longest = 1 if rng.random() < 0.3 else rng.randint(2, 5)
    is_ragged = rng.random() < 0.5
    pairs = []
    for _ in range(n_samples):
        length = rng.randint(1, longest) if is_ragged else longest
        tokens = [rng.randrange(vocab) for _ in range(length)]
        many = [rng.randrange(n_classes) for _ in range(length)]
        pairs.append((tokens, many if task == "seq-to-seq" else many[0]))
    ordered = None if task == "set" else rng.random() < 0.7
    return Dataset.from_pairs(pairs, task=task, ordered=ordered, on_conflict="first")
