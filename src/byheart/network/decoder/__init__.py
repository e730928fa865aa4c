"""MFT24's one-layer decoder."""
