"""Kim, Kim & Mozafari 2023: contexts by sorting. Read `string_ids` (a number for a multiset), then `theorem`."""

from byheart.construct.kim_2023.theorem import METHOD

__all__ = ["METHOD"]
