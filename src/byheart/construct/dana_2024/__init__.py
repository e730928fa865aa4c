"""DPC24: associations and distributions in one layer of attention alone."""

from byheart.construct.dana_2024.theorem import METHOD, memorise

__all__ = ["METHOD", "memorise"]
