"""Collision queries of the API: contacts, closest points, boxes, rays, filters and shapes."""
