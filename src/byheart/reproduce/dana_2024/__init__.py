"""The figures of Dana, Pydi & Chevaleyre (2024), in short DPC24."""
