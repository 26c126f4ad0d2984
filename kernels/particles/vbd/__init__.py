"""Vertex block descent."""
