"""Mahdavi, Liao & Thrampoulidis (2023): multi-head attention memorises H(min(n, d_h) - 1) + 1 examples."""

from byheart.construct.mahdavi_2023.size import METHOD

__all__ = ["METHOD"]
