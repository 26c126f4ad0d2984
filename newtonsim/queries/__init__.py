"""Rays, closest points and overlaps against the shapes of a model; see `scene_query.SceneQuery`."""
