"""Summarise the parts of a saved model and what was verified about it, as the document of `byheart inspect --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from byheart.errors import DoesNotHold, UsageError

if TYPE_CHECKING:
    from byheart.inspect.stages import Stage
    from byheart.model import Model

# the properties of a model about its labels and size, in the order in which documents list them
RATES = (
    "label_bits", "label_entropy", "entropy_per_parameter", "bits_per_parameter", "bits_per_stored_bit"
)  # fmt: skip


def summarise(model: Model, folder: Path) -> dict[str, Any]:
    """Return a description of the model as a dictionary that can be written as JSON.

    Among other things, it holds the stages (what each range of layers does), the record of how the model was made, and the
    certificate. `unchecked` in the certificate lists all fields but the digests that `load` compared, since the model was not run.
    """
    return {
        "path": str(folder),
        "task": model.memoriser.task,
        "ordered": model.memoriser.ordered,
        "labels": len(model.memoriser.label_names),
        "tokenizer": None if model.memoriser.tokenizer is None else model.memoriser.tokenizer.name,
        "architecture": model.network.spec.to_json(),
        "stages": [asdict(stage) for stage in known_stages(model)],
        "size": asdict(model.size),
        **{name: getattr(model, name) for name in RATES},
        "record": dict(model.record),
        "certificate": None if model.certificate is None else _unchecked(model.certificate.to_json()),
    }


def _unchecked(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a stored certificate with the names of all fields that may be false in `unchecked`."""
    checked = ("schema", "weights_digest", "model_digest", "unchecked")
    return {**certificate, "unchecked": [name for name in certificate if name not in checked]}


def known_stages(model: Model) -> tuple[Stage, ...]:
    """Return, for each range of layers, what it does and which lemma it uses. The result is empty if this is not known."""
    from byheart.inspect.stages import stages_of
    from byheart.network.llama.architecture import Llama
    from byheart.network.transformer.architecture import Transformer

    if isinstance(model.network, Llama):
        from byheart.inspect.checkpoint_trace import stages_of_llama
        from byheart.network.llama.evaluator import Machine

        try:
            return stages_of_llama(model.network, Machine(model.network), model.record)
        except (UsageError, DoesNotHold):  # the record lacks the numbers, or belongs to another network
            return ()
    if not isinstance(model.network, Transformer):
        return ()
    found = stages_of(model.network, model.record)
    return found if any(stage.kind in ("table", "lookup") for stage in found) else ()
