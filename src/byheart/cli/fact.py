"""`byheart inspect --fact`: the weights that hold one fact, and the facts that share them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from byheart.cli.output import count, echo_json, printable, say, show_pairs, show_table
from byheart.cli.predict import format_answer
from byheart.errors import UsageError

if TYPE_CHECKING:
    from byheart.data.dataset import Dataset
    from byheart.data.tokenizers import Tokenizer
    from byheart.model import Model

MOST_SHARING = 10
Found = tuple[dict[str, Any], Callable[[], None], list[int]]
"""The fields of the JSON document, what prints the same, and the samples that read some of those weights too."""


def show_fact(folder: Path, fact: str | None, data: Path | None, as_json: bool) -> None:
    """Print the weights and bits that hold `fact`, and with `data` the facts that read the same words."""
    from byheart.pipeline import load
    from byheart.storage.data_source import read_again

    if fact is None:
        raise UsageError("--data goes with --fact TEXT.")
    model = load(folder)
    tokenizer, is_llama = model.memoriser.tokenizer, model.network.spec.family == "llama"
    if tokenizer is None or (model.record.get("method") != "retrieval" and not is_llama):
        raise UsageError("a map of memory needs a model that `retrieval` or `llama` compiled from texts.")
    (answer,) = model.predict([fact])
    if answer is None:
        raise UsageError(f"{fact!r}: this model does not know it.", fact=fact)
    dataset = None
    if data is not None:
        dataset = read_again(model, data, **({"tokenizer": tokenizer} if is_llama else {}))
        if dataset.tokenizer is None or dataset.tokenizer.vocabulary != tokenizer.vocabulary:
            raise UsageError(
                f"{data}: its vocabulary is not that of the model; give the data it was made of."
            )
    find = _find_in_llama if is_llama else _find_in_tables
    document, show, others = find(model, tokenizer, fact, dataset)
    sharing = None if dataset is None else [dataset.describe_input(sample) for sample in others]
    if as_json:
        echo_json({"fact": fact, "answer": answer, **document, "sharing": sharing})
        return
    say(f"{printable(fact)}: {format_answer(answer)}\n")
    show()
    if sharing is not None:
        named = ", ".join(sharing[:MOST_SHARING])
        rest = f", and {count(len(sharing) - MOST_SHARING)} more" if len(sharing) > MOST_SHARING else ""
        say()
        show_pairs([("shared with", f"{named}{rest}" if sharing else "no other fact")])


def _find_in_tables(model: Model, tokenizer: Tokenizer, fact: str, dataset: Dataset | None) -> Found:
    """The rows, columns and bits of the tables of `retrieval`."""
    from byheart.construct.retrieval.locate import locate

    encoded = model.memoriser.encode(tokenizer.encode_all([fact]))
    if dataset is not None:
        encoded = np.concatenate([encoded, model.memoriser.encode(dataset.inputs)])
    found = locate(model.memoriser, model.record.get("notes") or {}, encoded)
    cells, bits = found.cells(0), found.bits(0)
    is_itself = (encoded == encoded[0]).all(axis=1)
    others = [int(i) - 1 for i in found.sharing(0) if not is_itself[i]]

    def show() -> None:
        show_table(
            ("layer", "matrix", "row", "column"),
            [(str(cell.layer), cell.matrix, str(cell.row), str(cell.column)) for cell in cells],
            numbers=(0, 2, 3),
        )
        say()
        shown = " and ".join(f"{each.start} to {each.stop - 1}" for each in bits)
        show_pairs([("bits of each word", shown)])

    pairs = [[each.start, each.stop] for each in bits]
    document: dict[str, object] = {"cells": [asdict(cell) for cell in cells], "bits": pairs[0]}
    if len(pairs) > 1:
        document["rare_bits"] = pairs[1:]  # where a rare label goes on
    return document, show, others


def _find_in_llama(model: Model, tokenizer: Tokenizer, fact: str, dataset: Dataset | None) -> Found:
    """The entries of the checkpoint that hold the text of the answer."""
    from byheart.network.llama.architecture import Llama
    from byheart.network.llama.generation import full_prompt, generate
    from byheart.network.llama.locate import locate

    llama = model.network
    assert isinstance(llama, Llama)
    stored = [] if dataset is None else [dataset.inputs[i].tolist() for i in range(dataset.n_samples)]
    keys = [tokenizer.encode(fact), *stored]
    prompts = [full_prompt(llama, key) for key in keys]
    answers = generate(llama, prompts, llama.backend)
    known = [i for i, each in enumerate(answers) if each]
    if 0 not in known:
        raise UsageError(f"{fact!r}: nothing follows it, so no weights hold it.", fact=fact)
    places = locate(llama, model.record.get("notes") or {}, [(prompts[i], answers[i]) for i in known])
    mine = sorted(places[0], key=lambda each: (each.layer, each.unit, each.column))
    names = [each.name for each in mine]
    others = [
        i - 1
        for i, place in zip(known, places, strict=True)
        if i and place & places[0] and keys[i] != keys[0]
    ]
    return {"parameters": names}, lambda: say("\n".join(f"  {name}" for name in names)), others
