"""The figures of Kajitsuka & Sato (2025), in short KS25."""
