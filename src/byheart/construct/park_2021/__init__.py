"""Park, Lee, Yun & Shin 2021: about N^(2/3) parameters.

Read `arrangement` (positions of points), `program` (blocks), `theorem`.
"""
