"""Kajitsuka & Sato 2025, Theorem 4.1: about √N blocks around one averaging attention layer.

Read the modules in this order. In the package `byheart.program`: `blocks` (the language of programs), `gadgets` (Lemmas G.2 to
G.6), `projection` (Lemmas G.1 and C.2), `lookup` (Lemmas C.1 and B.3), `distinct_tokens` (tokens as points). Then in this package:
`sequence_ids` (Lemmas B.1 and B.2), `contextual_mapping`, `network_program`, `theorem`.
"""
