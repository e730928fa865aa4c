"""MFT24 Theorem 7: the capacity of Theorem 5, with weighted token averaging in place of attention."""

from byheart.construct.madden_2024.size import method

METHOD = method("averaging")

__all__ = ["METHOD"]
