"""Where a fact lives: one weight, or the layers of one lemma where a theorem spreads the fact.

A fact lives in a weight if setting this weight to zero, and nothing else, changes the fact's answer. Weights that a fact reads
and whose value makes no difference to it are not among its locations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, overload

import numpy as np
from jaxtyping import Int, Shaped

from byheart.errors import UsageError

LARGEST_EXACT = 1 << 53


@dataclass(frozen=True)
class Location:
    """One place that holds a fact.

    fact        the input, as it was asked
    answer      the label; of a model that answers with text, the token of the answer that is read here
    position    where this token is in the answer, from 0
    layer       number of the layer, from 0: `module.layers[layer]`, in a Llama `model.layers[layer]`
    last_layer  the last of several layers where the fact is spread over them; otherwise the same number
    tensor      name of the weights: `module.get_parameter(tensor)[index]` is the weight
    index       as the tensor is indexed; None where the fact is spread over the tensor, as in the theorem's models
    value       the weight itself; None where there is no index
    powers      where the fact has its own bits in the weight: the powers of two they are worth. Empty where all bits count
    lemma       what the layers do, and the lemma that says so, in the theorem's models
    sharing     the other facts, of those asked, that live in the same place: setting this weight to zero changes their answers
                too. Where there is no index, the other facts in the same layers
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
    sharing: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dictionary. A value that is not a float is written as text."""
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
    """The part of a `Location` that many facts have in common: the layers, the tensor, and the lemma."""

    layer: int
    last_layer: int
    tensor: str
    lemma: str | None = None


@dataclass(frozen=True, eq=False)
class Locations(Sequence[Location]):
    """The locations of some facts, fact after fact. Each `Location` is made when it is looked at.

    facts     the facts by name; the first `n_asked` of them have their locations here, the others may share them
    answers   the answer tokens that occur; `answer` says which one of each location
    places    what many locations have in common; `place` says which one of each location
    cells     index of the weight in its tensor; -1 where there is none
    values    the weights
    fields    first and last (exclusive) power of two of a fact's own bits, for each kind of field; an empty range for none
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

    def __len__(self) -> int:
        """Total number of locations of the facts that were asked."""
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
            raise IndexError(f"there is no location {at}; there are {len(self)}")
        return next(self._make(np.array([number])))

    def __iter__(self) -> Iterator[Location]:
        return self._make(np.arange(len(self)))

    def of(self, fact: str) -> list[Location]:
        """The locations of one fact."""
        number = self._numbers.get(fact)
        if number is None or number >= self.n_asked:
            raise KeyError(fact)
        first, last = np.searchsorted(self.fact, [number, number + 1])
        return self[int(first) : int(last)]

    def frame(self) -> Any:
        """A pandas DataFrame with a row for each location and its fields as columns."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise UsageError("a table of locations needs pandas.\n  pip install pandas") from None

        return pandas.DataFrame(self._columns(np.arange(len(self))), columns=list(Location.__annotations__))

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.facts)}

    @cached_property
    def _groups(self) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        """The place of each location as a number, and the facts that live in each place, in order."""
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
        """The fields of some locations by name."""
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
            "sharing": [
                tuple(self.facts[other] for other in facts[place] if other != fact)
                for fact, place in together
            ],
        }


@lru_cache(maxsize=1 << 12)
def _powers(ranges: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """The powers of two in some ranges; the upper ends are exclusive."""
    return tuple(power for first, stop in ranges for power in range(first, stop))


def gather(
    names: tuple[str, ...],
    n_asked: int,
    answers: tuple[str, ...],
    places: tuple[Place, ...],
    found: Sequence[Mapping[str, np.ndarray]],
) -> Locations:
    """Join columns that were found in batches into one table, sorted by fact and by position."""
    columns = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    order = np.lexsort((columns["position"], columns["fact"]))
    return Locations(names, n_asked, answers, places, **{name: each[order] for name, each in columns.items()})


def require_known(names: Sequence[str], is_known: np.ndarray) -> None:
    """Refuse facts that the model does not know: nothing holds them."""
    unknown = np.flatnonzero(~is_known)
    if unknown.size:
        raise UsageError(
            f"{names[int(unknown[0])]!r}: this model does not know it.",
            facts=[names[int(at)] for at in unknown[:10]],
        )
