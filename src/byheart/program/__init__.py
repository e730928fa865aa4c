"""The middle of the compiler, shared by all constructions: programs of registers and blocks, their conversion to networks,
gadgets, lookup, projection, counting, and linear systems over GF(2)."""
