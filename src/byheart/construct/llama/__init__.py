"""A stock Llama that knows texts by heart.

Read in this order: `method` (all of it), `texts` and `vocabulary` of `network.llama` (data to token ids), `compiler` (draw, solve,
emit), `window_hash` and `heads` (what a window becomes), `tables` (words that add up), `layout` (where everything goes, and the
smallest that does), `registers` (a name for each column), `blocks` and `emission` (the tensors).
"""

from byheart.construct.llama.method import METHOD

__all__ = ["METHOD"]
