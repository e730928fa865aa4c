"""Where a fact lives, what a question does on its way, and what changes when a weight changes."""
