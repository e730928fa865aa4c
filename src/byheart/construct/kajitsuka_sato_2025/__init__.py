"""Kajitsuka & Sato 2025, Theorem 4.1: about √N blocks around one averaging attention layer.

Read in this order: in `program`, `blocks` (the language), `gadgets` (Lemmas G.2 to G.6), `projection` (G.1, C.2), `lookup`
(C.1, B.3) and `distinct_tokens` (tokens as points); here, `sequence_ids` (B.1, B.2), `contextual_mapping`, `network_program`
and `theorem`.
"""
