"""KS25's Transformer (eqs. 2 to 4): architecture, exact evaluation, and the native forward pass."""
