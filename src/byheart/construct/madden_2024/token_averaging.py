"""MFT24 Theorem 7: the same capacity with weighted token averaging in place of attention."""

from byheart.construct.madden_2024.size import method

METHOD = method("averaging")

__all__ = ["METHOD"]
