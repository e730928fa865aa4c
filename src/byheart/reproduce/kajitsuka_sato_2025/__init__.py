"""The figures of Kajitsuka & Sato (2025)."""
