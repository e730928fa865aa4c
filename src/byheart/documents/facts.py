"""Find the weights that hold facts. The result is the document that `byheart inspect --fact --json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from byheart.construct.retrieval.documents import END
from byheart.data.dataset import Dataset
from byheart.data.tokenizers import parse_ids
from byheart.documents.model_data import answered_as_given, is_model_data, read_for_model
from byheart.errors import UnknownToken, UsageError
from byheart.inspect.location import Location
from byheart.model import Answer, Model
from byheart.network.llama.architecture import Llama
from byheart.storage.data_source import read_again


@dataclass(frozen=True)
class LocatedFact:
    """One fact, its answer, and the weights that hold it.

    locations  the weights. Empty if a Llama that recites texts answers with their end, which no weight holds
    in_data    what the data file says of this fact: nothing (`missing`), the answer of the model (`same answer`) or not
               (`other answer`); None if no file was given
    """

    fact: str
    answer: Answer
    locations: tuple[Location, ...]
    in_data: Literal["same answer", "other answer", "missing"] | None

    @property
    def sharing(self) -> tuple[str, ...]:
        """The other facts that share some of these weights."""
        return tuple(dict.fromkeys(other for location in self.locations for other in location.sharing))

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        locations = [location.to_json() for location in self.locations]
        return {
            "fact": self.fact,
            "answer": self.answer,
            "locations": locations,
            "in_data": self.in_data,
        }


@dataclass(frozen=True)
class ComparedData:
    """The data file in which other facts at the same weights were looked for.

    n_facts        the number of distinct facts in the file
    n_answered     the number of these that the model answers as the file does. All others are ignored
    is_model_data  whether the file has the digest of the data from which the model was compiled. None if the model stores none
    """

    n_facts: int
    n_answered: int
    is_model_data: bool | None


@dataclass(frozen=True)
class LocatedFacts:
    """Facts and the weights that hold them. `compared` is None if no data file was given."""

    facts: tuple[LocatedFact, ...]
    compared: ComparedData | None

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        return {
            "facts": [fact.to_json() for fact in self.facts],
            "data": None if self.compared is None else asdict(self.compared),
        }


def locate_facts(model: Model, facts: Sequence[str], data: str | Path | None = None) -> LocatedFacts:
    """Find the weights that hold `facts`. If `facts` is empty, find those of all facts in the file `data` that the model answers as
    the file does.

    data  the data file of the model; needed if `facts` is empty, or to name other facts that share weights with `facts`
    """
    stored: dict[str, bool] = {}
    compared = None
    if data is not None:
        stored, compared = _facts_of(model, data)
    answered = [text for text, is_answered in stored.items() if is_answered]
    asked = list(dict.fromkeys(facts)) or answered
    if not asked and data is None:
        raise UsageError("give a fact with --fact TEXT, or the data file of the model with --data DATA.")
    if not asked:
        raise UsageError(f"the model answers no fact of {data} as the file does.", data=str(data))
    answers = dict(zip(asked, model.predict_names(as_inputs(model, asked)), strict=True))
    as_stored = {text: _as_stored(model, text) for text in facts}
    # a Llama that recites texts answers with the end of a text by default, so no weight holds this answer
    is_reciting_llama = isinstance(model.network, Llama) and model.network.spec.mode == "texts"
    ends = {
        text
        for text in asked
        if is_reciting_llama and answers[text] == END and stored.get(as_stored.get(text, text))
    }
    held = [text for text in asked if text not in ends]
    own = {*as_stored.values(), *asked}
    others = [text for text in answered if text not in own]
    locations: dict[str, tuple[Location, ...]] = dict.fromkeys(asked, ())
    if held:
        found = model.locate(as_inputs(model, held), among=as_inputs(model, others))
        locations |= {text: tuple(found.of(name)) for text, name in zip(held, found.facts, strict=False)}
    in_data: dict[bool | None, Any] = {True: "same answer", False: "other answer", None: "missing"}
    return LocatedFacts(
        tuple(
            LocatedFact(
                text,
                answers[text],
                locations[text],
                None if compared is None else in_data[stored.get(as_stored.get(text, text))],
            )
            for text in asked
        ),
        compared,
    )


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


def _facts_of(model: Model, data: str | Path) -> tuple[dict[str, bool], ComparedData]:
    """Return the distinct inputs of a data file as texts, each with whether the model answers it as the file does."""
    dataset = _read(model, data)
    if dataset.dim is not None:
        raise UsageError(
            f"{data}: its inputs are vectors, so a fact cannot be given as a text.\n"
            "  Use model.locate in Python.",
            data=data,
        )
    tokenizer = dataset.tokenizer
    rows = (dataset.inputs[at].tolist() for at in range(dataset.n_samples))
    texts = (" ".join(map(str, row)) if tokenizer is None else tokenizer.decode(row) for row in rows)
    facts: dict[str, bool] = {}
    for text, is_answered in zip(texts, answered_as_given(model, dataset).tolist(), strict=True):
        facts[text] = is_answered and facts.get(text, True)
    return facts, ComparedData(len(facts), sum(facts.values()), is_model_data(model, dataset))


def _read(model: Model, data: str | Path) -> Dataset:
    try:
        return read_for_model(model, data)
    except UnknownToken:
        return read_again(model, data)  # the tokenizer of the data has tokens that the model's does not have


def _as_stored(model: Model, text: str) -> str:
    """Encode and decode the text of a fact, so that different texts with the same tokens become equal."""
    tokenizer = model.memoriser.tokenizer
    try:
        return text if tokenizer is None else tokenizer.decode(tokenizer.encode(text))
    except UnknownToken:
        return text
