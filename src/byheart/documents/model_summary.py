"""What a saved model is made of and what was checked: what `byheart inspect --json` prints."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from byheart.errors import DoesNotHold, UsageError

if TYPE_CHECKING:
    from byheart.inspect.stages import Stage
    from byheart.model import Model

# what a model says of its labels and its size, in the order in which documents have it
RATES = (
    "label_bits", "label_entropy", "entropy_per_parameter", "bits_per_parameter", "bits_per_stored_bit"
)  # fmt: skip


def summarise(model: Model, folder: Path) -> dict[str, Any]:
    """Architecture, size, stages, record and certificate as a JSON-ready dictionary."""
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
        "certificate": None if model.certificate is None else model.certificate.to_json(),
    }


def known_stages(model: Model) -> tuple[Stage, ...]:
    """Which layers do what, and by which lemma; empty where the record does not tell."""
    from byheart.inspect.stages import stages_of
    from byheart.network.llama.architecture import Llama
    from byheart.network.transformer.architecture import Transformer

    if isinstance(model.network, Llama):
        from byheart.inspect.checkpoint_trace import stages_of_llama
        from byheart.network.llama.evaluator import Machine

        try:
            return stages_of_llama(model.network, Machine(model.network), model.record)
        except (UsageError, DoesNotHold):  # the record does not tell, or it is another network
            return ()
    if not isinstance(model.network, Transformer):
        return ()
    found = stages_of(model.network, model.record)
    return found if any(stage.kind in ("table", "lookup") for stage in found) else ()
