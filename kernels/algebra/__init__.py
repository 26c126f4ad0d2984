"""Spatial vectors, sparse and skyline factorizations: what the stages compute with."""
