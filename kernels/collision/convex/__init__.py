"""Convex shapes by support mappings: GJK, EPA, support facets and their overlap."""
