"""Reproduce the figures of the three papers from new runs.

Each has a specification, a computed record, a drawing and a verdict.
"""
