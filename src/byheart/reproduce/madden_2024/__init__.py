"""The figure of Madden, Fox & Thrampoulidis (2024), in short MFT24."""
