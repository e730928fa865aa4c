"""The figures of Dana, Pydi & Chevaleyre (2024)."""
