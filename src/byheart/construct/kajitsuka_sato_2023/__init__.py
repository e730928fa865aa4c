"""Kajitsuka & Sato 2023: one softmax head of rank 1. Read the modules in this order: `context_ids` (the Boltzmann operator),
`network_program`, `theorem`."""
