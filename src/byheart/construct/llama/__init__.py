"""Compile texts into a stock Llama that recites them.

Read in this order: `method` (the whole construction), `texts` and `network.llama.vocabulary` (data to token ids), `compiler`
(draw, solve, emit), `window_hash` and `heads` (the hash of a window), `tables` (words with prescribed sums), `layout` (columns
and layers, and the smallest network), `registers` (a name for each column), `blocks` and `emission` (the tensors).
"""

from byheart.construct.llama.method import METHOD

__all__ = ["METHOD"]
