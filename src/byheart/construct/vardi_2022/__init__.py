"""Vardi, Yehudai & Shamir 2022: a feed-forward network of about √N blocks that memorises N vectors."""
