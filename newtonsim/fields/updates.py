"""Updates of what depends on an array of a model; by launches only, so that a graph can contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.collision.plan import PLAN, CollisionPlan
from newtonsim.errors import ModelError
from newtonsim.fields.levers import LEVERS
from newtonsim.fields.presence import check_absence, presence_of
from newtonsim.kernels.steps import fields as field_kernels
from newtonsim.runtime.launcher import Launcher

if TYPE_CHECKING:
    from newtonsim.fields.table import FieldSpec
    from newtonsim.scene.model import Model

INVERSES = {
    "body_mass": "body_inv_mass",
    "body_inertia": "body_inv_inertia",
    "particle_mass": "particle_inv_mass",
}
"""Arrays of the model that are inverses of others."""
_RADII, _BOXES = "radii at first", "boxes at first"
_WITH_LEVERS = ("body_mass", "body_inertia", "body_com", "joint_X_c")


def everywhere(model: Model) -> wp.array:
    """Return the empty mask, which means all worlds."""
    return model.cached("mask of all worlds", lambda m: wp.zeros(0, dtype=bool, device=m.device))


def follow(
    model: Model, attribute: str, launch: Launcher | None = None, mask: wp.array | None = None
) -> None:
    """Update what depends on an array of the model.

    These are inverse masses and inertias, lever arms of joint axes, radii and boxes of shapes, and presence.

    Args:
        model: The model.
        attribute: The array, such as "body_mass" or "shape_geo.scale".
        launch: Launcher of the worlds; None for all, at once.
        mask: Worlds in which it has changed, bool, shape (world_count,), on the model's device; None for all.
    """
    launch = Launcher(model, record_tape=False) if launch is None else launch
    mask = everywhere(model) if mask is None else mask
    if attribute in INVERSES:
        _invert(model, attribute, launch, mask)
    if attribute in _WITH_LEVERS and model.kept(LEVERS) is not None:
        launch(
            field_kernels.measure_levers,
            "joint",
            reads=dict(
                world=model.joint_world,
                mask=mask,
                joint=launch.views.joint,
                mass=model.body_mass,
                com=model.body_com,
                inertia=model.body_inertia,
            ),
            writes=dict(lever=model.kept(LEVERS)),
        )
    if attribute == "body_present":
        presence = presence_of(model)
        if presence is not None:
            presence.follow(launch)
    if attribute == "shape_geo.scale":
        _bound_shapes(model, launch, mask)


def check_changeable(model: Model, spec: FieldSpec, index: np.ndarray) -> None:
    """Check that entries of a field can be changed now, and prepare the model for it.

    Args:
        model: The model.
        spec: The field.
        index: The entries.

    Raises:
        ModelError: Something depends on their current values.
    """
    if spec.key == "mass":
        mass: np.ndarray = getattr(model, spec.attribute).numpy()
        still = mass[index].reshape(-1) == 0.0
        if still.any():
            place = int(index.reshape(-1)[np.argmax(still)])
            name = f"'{model.body_key[place]}'" if spec.group == "bodies" else str(place)
            raise ModelError(f"{spec.name}: {name} has no mass and is static; solvers rely on this")
    elif spec.name == "bodies.present":
        check_absence(model)
        model.bodies_may_be_absent = True
    elif spec.name == "shapes.scale":
        _check_resizable(model, index)
    elif spec.key in ("mu_torsion", "mu_rolling") and model.kept(PLAN) is not None:
        if not any(mu.numpy().any() for mu in (model.shape_mu_torsion, model.shape_mu_rolling)):
            raise ModelError(
                f"{spec.name}: no shape had torsional or rolling friction when solvers were created; give "
                "it to one before that"
            )
    elif spec.name == "gravity" and not model.gravity_per_world:
        model.gravity = np.tile(model.gravity, (model.world_count, 1))


def _check_resizable(model: Model, shapes: np.ndarray) -> None:
    """Check that shapes may still change their sizes, and record their current sizes.

    Args:
        model: The model.
        shapes: Indices of the shapes.

    Raises:
        ModelError: One is a mesh whose convex hull a solver or a query has computed.
    """
    plan = model.kept(PLAN)
    if plan is not None:
        hulls = plan.is_hull[shapes.reshape(-1)]
        if hulls.any():
            name = model.shape_key[int(shapes.reshape(-1)[np.argmax(hulls)])]
            raise ModelError(
                f"shapes.scale: shape '{name}' collides as a convex hull, which was computed for a solver or "
                "a query; change its size before these are created"
            )
        boxes: _Boxes | None = model.kept(_BOXES)
        if boxes is None or boxes.plan is not plan:
            model.forget(_BOXES)
            model.cached(_BOXES, lambda m: _Boxes(m, plan))
    model.cached(_RADII, _Radii)


class _Radii:
    """Sizes and radii that shapes have before a field changes them."""

    def __init__(self, model: Model):
        self.scale = wp.clone(model.shape_geo.scale, requires_grad=False)
        self.radius = wp.clone(model.shape_collision_radius, requires_grad=False)


class _Boxes:
    """Sizes and boxes that shapes of a collision plan have before a field changes them."""

    def __init__(self, model: Model, plan: CollisionPlan):
        self.plan = plan
        self.scale = wp.clone(model.shape_geo.scale, requires_grad=False)
        self.lower, self.upper = wp.clone(plan.shape.local_lower), wp.clone(plan.shape.local_upper)


def _bound_shapes(model: Model, launch: Launcher, mask: wp.array) -> None:
    radii, boxes = model.cached(_RADII, _Radii), model.kept(_BOXES)
    of_shapes = dict(
        world=model.shape_world, mask=mask, kind=model.shape_geo.type, scale=model.shape_geo.scale
    )
    launch(
        field_kernels.bound_radii,
        "shape",
        reads=dict(**of_shapes, nominal_scale=radii.scale, nominal_radius=radii.radius),
        writes=dict(radius=model.shape_collision_radius),
    )
    if boxes is not None and boxes.plan is model.kept(PLAN):
        launch(
            field_kernels.bound_boxes,
            "shape",
            reads=dict(
                **of_shapes,
                nominal_scale=boxes.scale,
                nominal_lower=boxes.lower,
                nominal_upper=boxes.upper,
            ),
            writes=dict(lower=boxes.plan.shape.local_lower, upper=boxes.plan.shape.local_upper),
        )


def _invert(model: Model, attribute: str, launch: Launcher, mask: wp.array) -> None:
    array, inverse = getattr(model, attribute), getattr(model, INVERSES[attribute])
    kind = attribute.partition("_")[0]
    of_world = dict(world=getattr(model, f"{kind}_world"), mask=mask)
    if attribute == "body_inertia":
        launch(
            field_kernels.invert_inertias,
            kind,
            reads=dict(**of_world, mass=model.body_mass, inertia=array),
            writes=dict(inverse=inverse),
        )
    else:
        launch(
            field_kernels.invert_masses,
            kind,
            reads=dict(**of_world, mass=array),
            writes=dict(inverse=inverse),
        )
