"""Attention heads as neurons (Huben & Morris 2023): one masked head of size 1 computes one SiLU unit."""

from byheart.construct.attention_as_mlp.size import METHOD

__all__ = ["METHOD"]
