"""Attention heads as neurons (Huben & Morris 2023): one masked head of size 1 computes one SiLU unit."""
