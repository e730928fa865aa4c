"""The attention-only Transformer of Dana, Pydi & Chevaleyre 2024 (DPC24)."""
