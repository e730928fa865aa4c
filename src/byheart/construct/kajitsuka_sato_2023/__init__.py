"""Kajitsuka & Sato 2023: one softmax head of rank 1. Read `context_ids` (Boltzmann operator), `network_program`, `theorem`."""
