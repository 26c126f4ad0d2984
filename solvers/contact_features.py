"""Room for the features that contacts are between."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.collision.contact_features import FeatureView
from newtonsim.scene.allocation import zeros


def features_of(count: int, device: wp.Device) -> FeatureView:
    """Features of so many contact places, none found yet."""
    view = FeatureView()
    for name, dtype in (("normal", int), ("holder", int), ("face", wp.vec3)):
        setattr(view, name, zeros(count, dtype=dtype, device=device))
    sides = {"kind": int, "core": wp.vec3, "axis": wp.vec3, "radius": float, "size": wp.vec3, "turn": wp.quat}
    for name, dtype in sides.items():
        setattr(view, name, zeros((count, 2), dtype=dtype, device=device))
    return view
