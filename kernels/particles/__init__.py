"""Particles and the elements between them: contacts, neighbours, and one folder per solution method."""
