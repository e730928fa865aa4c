"""Compile texts into a standard Llama checkpoint that recites them.

Read in this order: `method` (the whole construction), `texts` and `network.llama.vocabulary` (data to token ids), `compiler`
(draw a hash, solve the tables, emit the weights), `window_hash` and `heads` (the hash of a window of tokens), `tables` (table
entries with prescribed sums), `layout` (columns and layers, and the smallest network), `registers` (a name for each column),
`blocks` and `emission` (the tensors).
"""

from byheart.construct.llama.method import METHOD

__all__ = ["METHOD"]
