"""Find the weights that hold a fact, follow a question through a network, and see what changes when a weight changes."""
