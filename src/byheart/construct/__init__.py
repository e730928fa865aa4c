"""Constructions, which compile a data set into a network that memorises it: a registry, and one package per construction."""
