"""Exact arithmetic: dyadic numbers, numbers in limbs, and columns of exact numbers."""
