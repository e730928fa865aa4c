"""Mahdavi, Liao & Thrampoulidis (2023): multi-head attention memorises H(min(n, d_h) - 1) + 1 examples.

There are H heads of size d_h, and each example has n context tokens and a query.
"""
