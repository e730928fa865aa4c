"""The location of a fact: one weight or, in models of KS25 (`kajitsuka-sato-2025` and its variants), the layers over which the
fact is spread.

In models of tables (`retrieval` and `llama`), a weight of a table is a location of a fact if setting only this weight to zero
changes the answer. A weight of a table that the network reads without effect on the answer is not a location. Weights of other
layers are no locations, although setting one of them to zero can change many answers: they compute which weights of the tables are
read, for all facts together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, overload

import numpy as np
from jaxtyping import Bool, Int, Shaped

from byheart.errors import UsageError

LARGEST_EXACT = 1 << 53


@dataclass(frozen=True)
class Location:
    """One place that holds a fact.

    fact        the input
    answer      the label or, if the model answers with text, the token of the answer that this location holds
    position    position of this token in the answer, from 0
    layer       number of the layer, from 0: `module.layers[layer]` or, in a Llama, `model.layers[layer]`
    last_layer  the last layer, if the fact is spread over several layers; otherwise the same as `layer`
    tensor      name of the tensor: `module.get_parameter(tensor)[index]` is the weight
    index       index of the weight in the tensor; None if the fact is spread over the tensor, as in models of KS25
    value       value of the weight; None if there is no index
    powers      if the fact has its own bits in the weight, the exponents of these bits; otherwise empty. Changing only these bits
                can also change other facts in the same weight: the weights of the tables are added up, so a changed bit can carry
                into the bits of another fact. `sharing` does not name such a fact if its own bits in this weight are all zero
    lemma       in models of KS25, the lemma of the proof that describes these layers
    zeros       True if zeros happen to encode the answer: setting any one of the fact's weights to zero changes the answer, but
                setting all of them to zero does not. None if this was not computed, as for a Llama
    sharing     other facts at this location. If there is an index: those of the other given facts whose answers also change when
                this weight is set to zero. If there is none: the other given facts in the same layers. In a graft: the
                other stored facts whose answers may change when this weight is set to zero, except keys that the weights do not
                show (see `byheart.graft.locations.locate`)
    n_compared  the number of other given facts that the model knows, among which `sharing` was looked for. If it is 0, `sharing`
                is empty because there was nothing to compare. None in a graft, where all stored facts are compared
    """

    fact: str
    answer: str
    position: int
    layer: int
    last_layer: int
    tensor: str
    index: tuple[int, ...] | None
    value: int | float | Fraction | None
    powers: tuple[int, ...]
    lemma: str | None
    zeros: bool | None
    sharing: tuple[str, ...]
    n_compared: int | None

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON. Fractions that are not whole are written as text, and so are whole
        numbers above 2^53 or below -2^53.
        """
        value = self.value
        if isinstance(value, Fraction):
            value = int(value) if value.denominator == 1 else value
        if isinstance(value, Fraction) or (isinstance(value, int) and abs(value) > LARGEST_EXACT):
            value = str(value)  # type: ignore[assignment]  # JSON has no number for it
        lists = {"powers": list(self.powers), "sharing": list(self.sharing)}
        return {
            **vars(self),
            "index": None if self.index is None else list(self.index),
            "value": value,
            **lists,
        }


@dataclass(frozen=True)
class Place:
    """The part of a `Location` that many facts share: the layers, the tensor and the lemma."""

    layer: int
    last_layer: int
    tensor: str
    lemma: str | None = None


@dataclass(frozen=True, eq=False)
class Locations(Sequence[Location]):
    """A sequence of the locations of some facts, ordered by fact. A `Location` object is made when it is accessed.

    facts     names of the facts. The sequence contains the locations of the first `n_asked`; the others may share these locations
    answers   the distinct labels or answer tokens; for each location, `answer` is an index into them
    places    the distinct places; for each location, `place` is an index into them
    cells     index of each weight in its tensor; -1 if there is none
    values    values of the weights
    fields    for each location, the bits of its weight that belong to the fact. A field is a run of bits, given as its first
              exponent and its last exponent plus 1. There is one field of each kind; it is empty if it has no bits in this weight
    is_known  for each fact, whether the model knows it; only known facts are compared
    zeros     for each fact, whether zeros encode its answer (see `Location`)
    """

    facts: tuple[str, ...]
    n_asked: int
    answers: tuple[str, ...]
    places: tuple[Place, ...]
    fact: Int[np.ndarray, " n"]
    answer: Int[np.ndarray, " n"]
    position: Int[np.ndarray, " n"]
    place: Int[np.ndarray, " n"]
    cells: Int[np.ndarray, "n axes"]
    values: Shaped[np.ndarray, " n"]
    fields: Int[np.ndarray, "n kinds 2"]
    is_known: Bool[np.ndarray, " n_facts"]
    zeros: Bool[np.ndarray, " n_facts"] | None = None

    def __len__(self) -> int:
        """The number of locations of the first `n_asked` facts."""
        return int(np.searchsorted(self.fact, self.n_asked))

    @overload
    def __getitem__(self, at: int) -> Location: ...
    @overload
    def __getitem__(self, at: slice) -> list[Location]: ...
    def __getitem__(self, at: int | slice) -> Location | list[Location]:
        if isinstance(at, slice):
            return list(self._make(np.arange(*at.indices(len(self)))))
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(f"location {at} does not exist; the number of locations is {len(self)}")
        return next(self._make(np.array([number])))

    def __iter__(self) -> Iterator[Location]:
        return self._make(np.arange(len(self)))

    def of(self, fact: str) -> list[Location]:
        """Return the locations of one fact."""
        number = self._numbers.get(fact)
        if number is None or number >= self.n_asked:
            raise KeyError(fact)
        first, last = np.searchsorted(self.fact, [number, number + 1])
        return self[int(first) : int(last)]

    def frame(self) -> Any:
        """Return a pandas DataFrame with one row per location and one column per field."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise UsageError(
                "a table of locations needs pandas, which is not installed.\n"
                "  Install it with: pip install pandas"
            ) from None

        return pandas.DataFrame(self._columns(np.arange(len(self))), columns=list(Location.__annotations__))

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.facts)}

    @cached_property
    def _groups(self) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        """Number the distinct locations. Return two things: for each item of the arrays (such as `cells`), the number of its
        location; and for each location, in the order of these numbers, its facts.
        """
        key = self.place.copy()
        for axis in self.cells.T:
            key = key * (int(axis.max(initial=0)) + 2) + axis + 1
        _, group = np.unique(key, return_inverse=True)
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(1, int(group.max(initial=-1)) + 1))
        return group, [tuple(dict.fromkeys(facts.tolist())) for facts in np.split(self.fact[order], starts)]

    def _make(self, taken: Int[np.ndarray, " n_taken"]) -> Iterator[Location]:
        return (Location(*row) for row in zip(*self._columns(taken).values(), strict=True))

    def _columns(self, taken: Int[np.ndarray, " n_taken"]) -> dict[str, list[Any]]:
        """Return the fields of some locations, by name."""
        group, facts = self._groups
        cells, values = self.cells[taken], self.values[taken]
        places = [self.places[at] for at in self.place[taken].tolist()]
        has_index: list[bool] = (cells >= 0).all(axis=1).tolist()
        together = zip(self.fact[taken].tolist(), group[taken].tolist(), strict=True)
        return {
            "fact": [self.facts[at] for at in self.fact[taken].tolist()],
            "answer": [self.answers[at] for at in self.answer[taken].tolist()],
            "position": self.position[taken].tolist(),
            "layer": [place.layer for place in places],
            "last_layer": [place.last_layer for place in places],
            "tensor": [place.tensor for place in places],
            "index": [tuple(at) if has else None for at, has in zip(cells.tolist(), has_index, strict=True)],
            "value": [value if has else None for value, has in zip(values.tolist(), has_index, strict=True)],
            "powers": [_powers(tuple(map(tuple, ranges))) for ranges in self.fields[taken].tolist()],
            "lemma": [place.lemma for place in places],
            "zeros": [None if self.zeros is None else bool(self.zeros[at]) for at in self.fact[taken]],
            "sharing": [
                tuple(self.facts[other] for other in facts[place] if other != fact)
                for fact, place in together
            ],
            "n_compared": [int(self.is_known.sum()) - 1] * len(taken),
        }


@lru_cache(maxsize=1 << 12)
def _powers(ranges: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Return the exponents in these ranges. Upper ends are exclusive."""
    return tuple(power for first, stop in ranges for power in range(first, stop))


def gather(
    names: tuple[str, ...],
    n_asked: int,
    answers: tuple[str, ...],
    places: tuple[Place, ...],
    found: Sequence[Mapping[str, np.ndarray]],
    is_known: Bool[np.ndarray, " n_facts"],
    zeros: Bool[np.ndarray, " n_facts"] | None = None,
) -> Locations:
    """Join the batches in `found`, which are dictionaries of columns, into one table, sorted by fact and by answer position."""
    columns = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    order = np.lexsort((columns["position"], columns["fact"]))
    sorted_columns = {name: each[order] for name, each in columns.items()}
    return Locations(names, n_asked, answers, places, **sorted_columns, is_known=is_known, zeros=zeros)


def require_known(names: Sequence[str], is_known: np.ndarray) -> None:
    """Raise `UsageError` for facts that the model does not know, since no weight holds them."""
    unknown = np.flatnonzero(~is_known)
    if unknown.size:
        raise UsageError(
            f"this model does not know {names[int(unknown[0])]!r}.",
            facts=[names[int(at)] for at in unknown[:10]],
        )
