"""Retrieval structures in the weights: labels at the price of their bits, in plain floats.

Read in this order: `layout` (the numbers); the passes `hashing`, `addressing`, `solving` with `elimination`, `emitting`, `reading`;
`exactness` (why floats do not round); `needs`, `ranking` and `search` (which layout and why), `sizing` (how large); `method`
(all of it).
"""

from byheart.construct.retrieval.method import METHOD

__all__ = ["METHOD"]
