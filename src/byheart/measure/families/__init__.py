"""The model families: those of the papers, a small GPT, and users' own modules.

Weights have a leading axis of models, so that many models train at once, except own modules, which train one by one.
"""

from __future__ import annotations

from byheart.errors import UsageError
from byheart.measure.families.attention_only import AttentionOnlyFamily
from byheart.measure.families.config import ModelConfig, OptionField, SizeField, complete_model
from byheart.measure.families.decoder import OneLayerDecoderFamily
from byheart.measure.families.family import Family
from byheart.measure.families.gpt import SmallGPTFamily
from byheart.measure.families.inputs import Inputs
from byheart.measure.families.own_module import Factory, OwnModuleFamily
from byheart.measure.families.uniform_attention import UniformAttentionFamily

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (UniformAttentionFamily(), OneLayerDecoderFamily(), AttentionOnlyFamily(), SmallGPTFamily())
}

_OWN: dict[str, Family] = {}

__all__ = [
    "FAMILIES",
    "Factory",
    "Family",
    "Inputs",
    "ModelConfig",
    "OptionField",
    "SizeField",
    "add_family",
    "complete_model",
    "family_of",
]


def add_family(factory: Factory) -> Family:
    """Make a model family from `factory`, a function that returns a `torch.nn.Module`, and return the family.

    Specifications can then refer to the family by its name, in this process only.
    """
    family = OwnModuleFamily(factory)
    _OWN[family.name] = family
    return family


def family_of(name: str) -> Family:
    """Return the family with this name. If there is none, raise `UsageError` with the names of all families."""
    family = (FAMILIES.get(name) or _OWN.get(name)) if isinstance(name, str) else None
    if family is None:
        hint = (
            "\n"
            "  To use your own module, also name its file on the command line with --family FILE.py:FUNCTION: "
            "a specification alone runs no code of yours."
            if ":" in str(name)
            else ""
        )
        known = ", ".join([*FAMILIES, *_OWN])
        raise UsageError(f"no model family `{name}`; choose from: {known}.{hint}", family=name)
    return family
