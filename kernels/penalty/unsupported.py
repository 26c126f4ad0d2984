"""Contacts between bodies whose penalty force has no derivative.

Stage: backward pass of penalty forces, worlds without gradient
Called by: solvers/semi_implicit/adjoint.py
Reads: ContactView, FeatureView, body_world, shape_body
Writes: body_qd_grad, refused
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.collision.contact_features import NORMAL_UNKNOWN, FeatureView
from newtonsim.kernels.collision.contacts import ContactView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.kernel
def refuse_unknown(
    first: int,
    contacts: ContactView,
    features: FeatureView,
    shape_body: wp.array(dtype=int),
    body_world: wp.array(dtype=int),
    refused: wp.array(dtype=bool),
    body_qd_grad: wp.array(dtype=wp.spatial_vector),
):
    """One thread per contact place: one that presses and has no rule makes gradients of its bodies NaN."""
    c = first + wp.tid()
    if contacts.shape0[c] < 0 or features.normal[c] != NORMAL_UNKNOWN or contacts.distance[c] >= 0.0:
        return
    for side in range(2):
        s = contacts.shape0[c]
        if side == 1:
            s = contacts.shape1[c]
        b = shape_body[s]
        if b >= 0:
            refused[body_world[b]] = True
            body_qd_grad[b] = wp.spatial_vector(wp.nan, wp.nan, wp.nan, wp.nan, wp.nan, wp.nan)
