"""Kajitsuka & Sato 2025, Theorem 4.1: about √N blocks around one averaging attention layer.

Read in this order: `steps` (the language), `gadgets` (Lemmas G.2 to G.6), `projection` (G.1, C.2), `memorise` (C.1, B.3),
`sequence_ids` (B.1, B.2), `words` (tokens as points), `theorem` (Theorem 4.1).
"""

from byheart.construct.kajitsuka_sato_2025.theorem import METHOD

__all__ = ["METHOD"]
