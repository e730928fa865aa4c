"""Madden, Fox & Thrampoulidis 2024: next-token distributions in one decoder layer. `METHOD` is Theorem 5, with self-attention."""

from byheart.construct.madden_2024.size import method

METHOD = method("attention")

__all__ = ["METHOD"]
