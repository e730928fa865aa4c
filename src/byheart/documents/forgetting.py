"""Compile a model again without some facts, and compare the weights. The result is the document of `byheart forget --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from byheart.construct.registry import get, names
from byheart.data.dataset import Dataset
from byheart.documents.model_data import require_model_data
from byheart.errors import UnknownToken, UsageError
from byheart.inspect.changes import WeightChanges, compare_weights
from byheart.inspect.location import Locations
from byheart.model import Answer, Model
from byheart.network.llama.architecture import Llama
from byheart.pipeline import compile as compile_data
from byheart.process.progress import Progress
from byheart.records.fields import LARGEST, Fields
from byheart.records.reader import read_values
from byheart.records.refusals import corrupt


@dataclass(frozen=True, eq=False)
class Forgotten:
    """A model that was compiled again, from the same seed, without some facts.

    before     the answers of the original model to the forgotten facts
    after      the answers of the new model to the forgotten facts
    changes    the weights that differ
    locations  the weights of the original model that hold the forgotten facts; None unless the method is `retrieval` or `llama`
    is_compared  whether the data were compared, by their digest, with those of the original model; False if it stores no digest
    """

    facts: tuple[str, ...]
    model: Model
    before: list[Answer]
    after: list[Answer]
    changes: WeightChanges
    locations: Locations | None
    is_compared: bool

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON.

        `entries` lists the weights that differ. The weight of an entry is `module.get_parameter(tensor)[index]`.
        """
        certificate, indices = self.model.certificate, self.changes.indices
        assert certificate is not None
        return {
            "forgotten": list(self.facts),
            "data_compared": self.is_compared,
            "answers": self.before,
            "answers_without": self.after,
            "verified": {"checked": certificate.checked, "wrong": certificate.wrong},
            "size_without": asdict(self.model.size),
            "same_shape": self.changes.same_shape,
            "changed": {name: len(found) for name, found in indices.items()},
            "entries": [
                {"tensor": name, "index": list(at)} for name, found in indices.items() for at in found
            ],
            "locations": None if self.locations is None else [each.to_json() for each in self.locations],
        }


def forget_facts(
    model: Model, data: str | Path, facts: Sequence[str], progress: Progress | None = None
) -> Forgotten:
    """Compile `data` again without `facts`, with the seed and options of the model. For a Llama, the shape and the hash function
    also stay the same.

    Raise `UsageError` if these are not the data from which the model was compiled.
    """
    if model.memoriser.tokenizer is None:
        raise UsageError("forgetting needs a model that was compiled from texts; this one was not.")
    is_llama = model.record.get("method") == "llama"
    dataset, is_compared = require_model_data(model, data)
    without = compile_data(
        dataset.subset(_others(dataset, data, facts)),
        progress=progress,
        precision=model.network.precision,
        check=True,
        **_options(model),
    )
    return Forgotten(
        tuple(facts),
        without,
        model.predict_names(list(facts)),
        without.predict_names(list(facts)),
        compare_weights(model.network, without.network),
        model.locate(list(facts)) if is_llama or model.record.get("method") == "retrieval" else None,
        is_compared,
    )


def _others(dataset: Dataset, data: str | Path, facts: Sequence[str]) -> list[int]:
    """Return the indices of all samples except those of `facts`. Raise `UsageError` if a fact is missing or no sample is left."""
    stored = [tuple(dataset.inputs[at].tolist()) for at in range(dataset.n_samples)]
    wanted, known = {fact: _encode(dataset, fact) for fact in facts}, set(stored)
    missing = sorted(fact for fact, ids in wanted.items() if ids not in known)
    if missing:
        raise UsageError(
            f"{Path(data).name} has no fact {missing[0]!r}; give a fact exactly as it is in the file.",
            facts=missing,
        )
    forgotten = set(wanted.values())
    kept = [at for at, ids in enumerate(stored) if ids not in forgotten]
    if not kept:
        raise UsageError("these are all the facts of the data; leave at least one in the model.")
    return kept


def _encode(dataset: Dataset, fact: str) -> tuple[int, ...] | None:
    """Return the token ids of a fact, or None if it has a token that the data do not have."""
    assert dataset.tokenizer is not None
    try:
        return tuple(dataset.tokenizer.encode(fact))
    except UnknownToken:
        return None


def _options(model: Model) -> dict[str, Any]:
    """Return the method, the seed and the options with which the model was compiled, as arguments for `compile`. They are read from
    the record of the model.

    No digest protects the record, so options that the method does not have are refused.
    """
    record = Fields(dict(model.record), "model.json", "record")
    method = get(record.text("method", names()))
    given = record.child("options")
    read_values(given.values, method.options, "model.json, record.options", refuse=corrupt, noun="option")
    options = {name: value for name, value in given.values.items() if name != "precision"}
    if method.name == "llama" and isinstance(model.network, Llama):
        notes, most = record.child("notes"), model.network.spec.max_positions
        options |= {
            # a model from which facts were already forgotten keeps the room for them
            "room": max(notes.integer("contexts"), options.get("room", 0)),
            "max_positions": most,
            "window": notes.integer("window", most=most) if notes.has("window") else 0,
            "rows": notes.integer("rows"),
            "first_draw": notes.integer("hashes drawn", 1) - 1,
            "channel_starts": notes.integers("channel starts", 0, LARGEST),
        }
    return {"method": method.name, "seed": record.integer("seed", most=LARGEST), **options}
