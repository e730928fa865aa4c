"""Kim, Kim & Mozafari 2023: contexts are identified by sorting. Read `string_ids` (a number for a multiset), then `theorem`."""
