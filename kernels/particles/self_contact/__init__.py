"""Cloth and soft surfaces against themselves and each other."""
