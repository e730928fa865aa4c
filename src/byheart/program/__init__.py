"""The part of the compiler that all constructions share: programs of registers and blocks, their conversion to networks, gadgets,
lookup, projection, counting of weights, and linear systems over GF(2).
"""
