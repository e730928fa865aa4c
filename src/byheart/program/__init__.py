"""The middle of the compiler, shared by all constructions: registers and blocks, gadgets, lookup, projection, counts, linear
systems over GF(2)."""
