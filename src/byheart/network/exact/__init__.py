"""Exact arithmetic: dyadic numbers, long numbers in pieces of 32 bits (`limbs`), columns of exact numbers, and polynomials."""
