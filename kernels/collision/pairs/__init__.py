"""Broad phase: bounds of shapes, overlapping pairs, and the manifolds that narrow phases fill."""
