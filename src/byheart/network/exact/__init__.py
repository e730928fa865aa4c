"""Exact arithmetic: dyadic numbers, limbs, and columns of them."""
