"""Where a fact lives, what a network computes on a question, and what changes with a weight."""
