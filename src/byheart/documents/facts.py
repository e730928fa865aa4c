"""Find the weights that hold facts. The result is the document that `byheart inspect --fact --json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byheart.data.tokenizers import parse_ids
from byheart.errors import UnknownToken, UsageError
from byheart.inspect.location import Location
from byheart.model import Answer, Model
from byheart.storage.data_source import read_again


@dataclass(frozen=True)
class LocatedFact:
    """One fact, its answer, and the weights that hold it."""

    fact: str
    answer: Answer
    locations: tuple[Location, ...]

    @property
    def sharing(self) -> tuple[str, ...]:
        """The other facts that share some of these weights."""
        return tuple(dict.fromkeys(other for location in self.locations for other in location.sharing))

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        locations = [location.to_json() for location in self.locations]
        return {"fact": self.fact, "answer": self.answer, "locations": locations}


def locate_facts(model: Model, facts: Sequence[str], data: str | Path | None = None) -> list[LocatedFact]:
    """Find the weights that hold `facts`. If `facts` is empty, find those of all facts in the file `data`.

    data  the data file of the model; needed if `facts` is empty, or to name other facts that share weights with `facts`
    """
    stored = [] if data is None else _texts(model, data)
    asked = list(dict.fromkeys(facts)) or stored
    if not asked:
        raise UsageError("give a fact with --fact TEXT, or the data file of the model with --data DATA.")
    own = {_as_stored(model, text) for text in facts} | set(asked)
    others = [text for text in stored if text not in own]
    found = model.locate(as_inputs(model, asked), among=as_inputs(model, others))
    answers = model.predict_names(as_inputs(model, asked))
    return [
        LocatedFact(fact, answer, tuple(found.of(name)))
        for fact, name, answer in zip(asked, found.facts, answers, strict=False)
    ]


def as_inputs(model: Model, texts: Sequence[str]) -> list[Any]:
    """Return the texts as inputs for the model. If the model has no tokenizer, each text lists token ids, which are parsed."""
    if model.memoriser.tokenizer is not None:
        return list(texts)
    if not model.network.takes_ids:
        raise UsageError(
            "the inputs of this model are vectors, so a fact cannot be given as a text.\n"
            "  Use model.locate in Python."
        )
    words = "this model has no tokenizer: give token ids with spaces between them, not {!r}."
    return [parse_ids(text, words.format(text)) for text in texts]


def _texts(model: Model, data: str | Path) -> list[str]:
    """Return the distinct inputs of a data file as texts."""
    tokenizer = model.memoriser.tokenizer
    is_llama = model.network.spec.family == "llama"
    dataset = read_again(model, data, **({"tokenizer": tokenizer} if is_llama else {}))
    if dataset.dim is not None:
        raise UsageError(
            f"{data}: its inputs are vectors, so a fact cannot be given as a text.\n"
            "  Use model.locate in Python.",
            data=data,
        )
    rows = [dataset.inputs[at].tolist() for at in range(dataset.n_samples)]
    if dataset.tokenizer is None:
        return list(dict.fromkeys(" ".join(map(str, row)) for row in rows))
    return list(dict.fromkeys(dataset.tokenizer.decode(row) for row in rows))


def _as_stored(model: Model, text: str) -> str:
    """Encode and decode the text of a fact, so that different texts with the same tokens become equal."""
    tokenizer = model.memoriser.tokenizer
    try:
        return text if tokenizer is None else tokenizer.decode(tokenizer.encode(text))
    except UnknownToken:
        return text
