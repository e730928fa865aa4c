"""The figure of Madden, Fox & Thrampoulidis (2024)."""
