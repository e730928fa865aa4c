"""Mahdavi, Liao & Thrampoulidis (2023): multi-head attention memorises H(min(n, d_h) - 1) + 1 examples."""
