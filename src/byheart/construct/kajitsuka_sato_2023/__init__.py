"""Kajitsuka & Sato 2023: one softmax head of rank 1. Read `context_ids` (Boltzmann operator), `rounding`, `theorem`."""

from byheart.construct.kajitsuka_sato_2023.theorem import METHOD

__all__ = ["METHOD"]
