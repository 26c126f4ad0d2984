"""Reverse passes of the dynamics of trees, written by hand."""
