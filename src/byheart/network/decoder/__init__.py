"""The one-layer decoder of Madden, Fox & Thrampoulidis 2024 (MFT24)."""
