"""Values of the wrong kind at the public functions: each is refused in words, and none is taken for another.

Run as a program, since under pytest the annotations are checked at run time, and object before the functions can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import byheart as bh
from byheart.errors import ByheartError
from byheart.network.decoder.architecture import Decoder

FIXTURES = Path(__file__).resolve().parents[1] / "storage" / "fixtures"
PAIRS = [("ab", "x"), ("cd", "y"), ("ef", "x")]
TEXTS, TOKENS = (bh.load(FIXTURES / name) for name in ("retrieval-float64", "retrieval-tokens"))
TABLE = bh.Dataset.from_pairs(PAIRS)
DOCUMENTS = bh.Dataset.from_documents(["a b", "a c", "b a"])


def spoilt() -> bh.Model:
    """A model of `DOCUMENTS` that is wrong of every context. A misspelt rule was followed by no check, so it held."""
    model = bh.compile(DOCUMENTS, method="madden-2024", precision="float64")
    assert isinstance(model.network, Decoder)
    wrong = replace(model.network, logits=-model.network.logits)
    return replace(model, memoriser=replace(model.memoriser, network=wrong), certificate=None)


WRONG = spoilt()
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "misspelt rule": (
        lambda: bh.verify(WRONG, DOCUMENTS, rule="total_gap"),
        "not one of contexts, total-gap",
    ),
    "no rule": (lambda: bh.verify(WRONG, DOCUMENTS, rule=None), "not one of contexts, total-gap"),
    "half a sample": (lambda: bh.verify(TEXTS, TABLE, sample=1.5), "sample is 1.5; it must be a whole"),
    "another backend": (lambda: bh.verify(TEXTS, TABLE, backend="gpu"), "backend 'gpu' is not one of"),
    "exchanged": (lambda: bh.verify(TABLE, TEXTS), "verify takes a Model, not Dataset"),
    "nothing to compare": (lambda: bh.compare(3), "cannot be compiled"),
    "mask": (lambda: TABLE.subset([True, False, True]), "numpy.flatnonzero"),
    "half a number": (lambda: TABLE.subset([0.5]), "whole numbers"),
    "half a class": (lambda: TABLE.with_labels(np.array([0.5, 0, 0])), "whole numbers"),
    "names": (lambda: TABLE.with_labels("xyz"), "label_names"),
    "no frame": (lambda: bh.Dataset.from_pandas(PAIRS), "expected a data frame"),
    "order": (lambda: bh.Dataset.from_pairs(PAIRS, ordered="no"), "ordered must be True or False, not 'no'"),
    "nothing": (lambda: bh.Dataset.from_pairs([(None, "b")]), "an input without tokens"),
    "set": (lambda: TEXTS.predict(set()), "predict needs"),
    "number": (lambda: TOKENS.predict(np.array(5)), "predict needs"),
    "gradient": (lambda: TOKENS.predict(torch.zeros(2, 2, requires_grad=True)), "requires grad"),
    "meta": (lambda: TEXTS.predict(torch.zeros(2, 2, device="meta")), "meta device"),
}


def check() -> None:
    """Print what was not refused as it should be."""
    for name, (call, words) in CASES.items():
        try:
            print(f"{name}: not refused, {call()!r}")
        except ByheartError as error:
            if words not in str(error):
                print(f"{name}: {error}")
        except Exception as error:
            print(f"{name}: an error of others, {error!r}")
    if TABLE.with_labels([1, 1, 0]).subset([2, 0]).labels.tolist() != [0, 1]:
        print("a list of numbers is not taken")
    if any(bh.verify(WRONG, DOCUMENTS, rule=rule).holds for rule in ("contexts", "total-gap")):
        print("the spoilt model holds by a rule that there is")


if __name__ == "__main__":
    check()
