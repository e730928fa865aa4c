"""Reproduce the figures of the three papers from new runs.

Each figure has a specification, a computed record, a drawing, and a verdict that says whether the paper's claim holds.
"""
