"""The model families of the papers, each with a leading model axis."""

from __future__ import annotations

from byheart.errors import UsageError
from byheart.measure.families.attention_only import AttentionOnlyFamily
from byheart.measure.families.config import ModelConfig, OptionField, SizeField, complete_model
from byheart.measure.families.decoder import OneLayerDecoderFamily
from byheart.measure.families.family import Family
from byheart.measure.families.gpt import SmallGPTFamily
from byheart.measure.families.inputs import Inputs
from byheart.measure.families.uniform_attention import UniformAttentionFamily

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (UniformAttentionFamily(), OneLayerDecoderFamily(), AttentionOnlyFamily(), SmallGPTFamily())
}

__all__ = [
    "FAMILIES",
    "Family",
    "Inputs",
    "ModelConfig",
    "OptionField",
    "SizeField",
    "complete_model",
    "family_of",
]


def family_of(name: str) -> Family:
    """The family of that name; a `UsageError` lists those there are."""
    if name not in FAMILIES:
        raise UsageError(f"no model family `{name}`; there are: {', '.join(FAMILIES)}.", family=name)
    return FAMILIES[name]
