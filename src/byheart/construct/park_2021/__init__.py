"""Park, Lee, Yun & Shin 2021: a feed-forward network with about N^(2/3) parameters that memorises N vectors.

Read the modules in this order: `arrangement` (positions of points), `program` (blocks), `theorem`.
"""
