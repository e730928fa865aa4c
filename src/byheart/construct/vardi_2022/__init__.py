"""Vardi, Yehudai & Shamir 2022: a feed-forward network of about √N blocks that memorises N vectors."""

from byheart.construct.vardi_2022.theorem import METHOD

__all__ = ["METHOD"]
