"""Exact arithmetic: dyadic numbers, long numbers in pieces of 32 bits (`limbs`), and columns of exact numbers."""
