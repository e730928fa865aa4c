"""DPC24's attention-only Transformer."""
