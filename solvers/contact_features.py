"""Room for the features that contacts are between."""

from __future__ import annotations

import warp as wp

from newtonsim.kernels.collision.contact_features import FeatureView
from newtonsim.scene.allocation import zeros


def features_of(count: int, device: wp.Device) -> FeatureView:
    """Features of so many contact places, none found yet."""
    view = FeatureView()
    view.normal = zeros(count, dtype=int, device=device)
    view.partner = zeros(count, dtype=int, device=device)
    view.holder = zeros(count, dtype=int, device=device)
    view.face = zeros(count, dtype=wp.vec3, device=device)
    view.kind = zeros((count, 2), dtype=int, device=device)
    view.core = zeros((count, 2), dtype=wp.vec3, device=device)
    view.axis = zeros((count, 2), dtype=wp.vec3, device=device)
    view.radius = zeros((count, 2), dtype=float, device=device)
    view.size = zeros((count, 2), dtype=wp.vec3, device=device)
    view.turn = zeros((count, 2), dtype=wp.quat, device=device)
    return view
