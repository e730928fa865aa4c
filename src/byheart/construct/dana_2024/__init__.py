"""Dana, Pydi & Chevaleyre (2024): associations and distributions in a single attention layer, without feed-forward layers."""
