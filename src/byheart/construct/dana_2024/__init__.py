"""DPC24: associations and distributions in one layer of attention alone."""

from byheart.construct.dana_2024.size import METHOD

__all__ = ["METHOD"]
