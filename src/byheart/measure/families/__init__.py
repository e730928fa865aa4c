"""The model families of the papers, each with a leading model axis."""

from __future__ import annotations

from byheart.errors import UsageError
from byheart.measure.families.attention_only import AttentionOnly
from byheart.measure.families.decoder import OneLayerDecoder
from byheart.measure.families.family import Family, Inputs, Model, OptionField, SizeField, checked
from byheart.measure.families.gpt import SmallGPT
from byheart.measure.families.uniform_attention import UniformAttention

FAMILIES: dict[str, Family] = {
    family.name: family for family in (UniformAttention(), OneLayerDecoder(), AttentionOnly(), SmallGPT())
}

__all__ = [
    "FAMILIES",
    "Family",
    "Inputs",
    "Model",
    "OptionField",
    "SizeField",
    "checked",
    "family_of",
]


def family_of(name: str) -> Family:
    """The family of that name; a `UsageError` lists those there are."""
    if name not in FAMILIES:
        raise UsageError(f"no model family `{name}`; there are: {', '.join(FAMILIES)}.", family=name)
    return FAMILIES[name]
