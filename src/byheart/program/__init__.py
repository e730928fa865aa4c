"""The part of the compiler that constructions share: programs of registers and blocks, their conversion to networks, small programs
such as bumps and bit extraction (`gadgets`), lookup, projection, counting of weights, and linear systems over GF(2).
"""
