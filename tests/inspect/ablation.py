"""Weights set to zero, and the facts that answer otherwise then: found by running the network, not by a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from byheart.data.dataset import Dataset
from byheart.inspect.changes import change_weights
from byheart.inspect.locate import Location, Locations, locate
from byheart.model import Model
from byheart.network.exact.dyadic import SparseMatrix
from byheart.network.llama.architecture import Llama
from byheart.network.llama.chains import ChainedTexts
from byheart.network.llama.evaluator import evaluate
from byheart.network.llama.generation import full_prompt, generate
from byheart.network.memoriser import Memoriser


class Ablation:
    """A model and its data. Facts are called by their numbers."""

    def __init__(self, model: Model, data: Dataset) -> None:
        self.model, self.data = model, data
        self.names = [str(number) for number in range(data.n_samples)]

    @cached_property
    def found(self) -> Locations:
        return locate(self.model.memoriser, self.model.record, self.data.inputs, self.names)

    @cached_property
    def before(self) -> np.ndarray:
        return self.answers(self.model.memoriser)

    def some(self, n: int, seed: int = 0) -> list[str]:
        drawn = np.random.default_rng(seed).choice(self.data.n_samples, n, replace=False)
        return [str(number) for number in drawn]

    def answers(self, memoriser: Memoriser) -> np.ndarray:
        """What a network answers to every fact; padding, which means nothing, as 0."""
        network = memoriser.network
        if isinstance(network, Llama):
            tokens = evaluate(network, self._texts).tokens
            rows = np.split(tokens, np.cumsum(self._lengths)[:-1])
            longest = max(self._lengths)
            return np.array([np.pad(row, (0, longest - len(row))) for row in rows])
        encoded = memoriser.encode(self.data.inputs)
        backend = "exact" if network.precision == "exact" else "module"
        found = memoriser.answer(encoded, backend=backend)
        if found.ndim == 2 and network.pad is not None:
            return np.asarray(np.where(encoded == network.pad, 0, found))
        return found

    @cached_property
    def _generated(self) -> tuple[list[list[int]], list[list[int]]]:
        """Prompts and answers of a Llama as it is."""
        llama = self.model.network
        assert isinstance(llama, Llama)
        prompts = [full_prompt(llama, self.data.inputs[at].tolist()) for at in range(self.data.n_samples)]
        return prompts, generate(llama, prompts, "exact")

    @property
    def _lengths(self) -> list[int]:
        return [len(answer) + 1 for answer in self._generated[1]]

    @cached_property
    def _texts(self) -> ChainedTexts:
        """Each prompt with its right answer: a greedy answer changes if and only if a token of it changes here."""
        ids = [np.array(prompt + answer) for prompt, answer in zip(*self._generated, strict=True)]
        offsets = np.cumsum([0, *map(len, ids)])
        asked = np.zeros(int(offsets[-1]), dtype=bool)
        for end, n in zip(offsets[1:], self._lengths, strict=True):
            asked[end - n : end] = True
        return ChainedTexts(np.concatenate(ids), offsets, asked)

    def broken_by(self, other: Memoriser) -> set[str]:
        """The facts that another network answers otherwise."""
        differs = self.answers(other) != self.before
        return {str(at) for at in np.flatnonzero(differs if differs.ndim == 1 else differs.any(axis=1))}

    def broken_without(self, locations: Sequence[Location]) -> set[str]:
        """The facts that break when some weights are zero."""
        return self.broken_by(without(self.model.memoriser, locations))

    def require_ground_truth(self, facts: list[str], most: int = 100) -> int:
        """Each weight that holds one of `facts` breaks it, those that share the weight, and no other. How many were tried.

        most  weights of each fact that are tried, drawn at random
        """
        n_tried, rng = 0, np.random.default_rng(0)
        for fact in facts:
            own = self.found.of(fact)
            assert own, fact
            for at in rng.permutation(len(own))[:most]:
                assert self.broken_without([own[at]]) == {fact, *own[at].sharing}, own[at]
                n_tried += 1
        return n_tried

    def require_own_bits(self, location: Location) -> None:
        """Flipping any of a fact's own bits in a weight changes its answer."""
        assert location.index is not None
        row, column = location.index
        for power in {location.powers[0], location.powers[-1]}:
            edit = {"matrix": location.tensor, "row": row, "column": column, "power": power}
            other, _ = change_weights(self.model.memoriser, [edit])
            assert location.fact in self.broken_by(other)


def without(memoriser: Memoriser, locations: Sequence[Location]) -> Memoriser:
    """The same with some weights zero; the whole tensor where a location has no index."""
    network = memoriser.network
    cells: dict[str, list[tuple[int, ...] | None]] = {}
    for location in locations:
        cells.setdefault(location.tensor, []).append(location.index)
    weights = []
    for name, own in network.parameters():
        if name in cells and isinstance(own, SparseMatrix):
            kept = {} if None in cells[name] else own.entries
            own = SparseMatrix(own.shape, {at: value for at, value in kept.items() if at not in cells[name]})
        elif name in cells:
            own = own.copy()
            for at in cells[name]:
                own[... if at is None else at] = 0
        weights.append(own)
    return replace(memoriser, network=network.spec.build(iter(weights), network.files()))
