"""Forces of particles by penalty: springs, triangles, bending edges, tetrahedra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from newtonsim.kernels.penalty import elements as penalty_elements
from newtonsim.kernels.penalty import sums
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.solvers.particles.system import warn_of_weak_triangles


@dataclass
class WorldOrder:
    """Things of one kind in the order of their worlds.

    Attributes:
        order: The things, int, shape (n,).
        start: First place of each world in `order`, and the end, shape (world_count + 1,).
    """

    order: wp.array
    start: np.ndarray


def order_by_world(things: np.ndarray, world: np.ndarray, model: Model) -> WorldOrder:
    """Sort things (n,), of which each lies in a world (n,), so that a shard finds its own in one range."""
    places = np.argsort(world, kind="stable")
    start = np.searchsorted(world[places], np.arange(model.world_count + 1))
    return WorldOrder(put(things[places], dtype=int, device=model.device), start)


@dataclass
class Slots:
    """Places whose values add up to the force on each particle or body.

    Attributes:
        start: First entry of each in `slot`, and the end, int, shape (n + 1,).
        slot: Places in a fixed order.
    """

    start: wp.array
    slot: wp.array


def slots_of(owner: np.ndarray, slot: np.ndarray, count: int, device: wp.Device) -> Slots:
    """List the slots (n,) of each owner (n,); those of owner -1 belong to none."""
    owned = owner >= 0
    owner, slot = owner[owned], slot[owned]
    places = np.argsort(owner, kind="stable")
    start = np.searchsorted(owner[places], np.arange(count + 1))
    return Slots(put(start, dtype=int, device=device), put(slot[places], dtype=int, device=device))


class ElementForces:
    """Forces of the elements between particles.

    Args:
        model: The model.

    Attributes:
        starts: Kinds of index of the elements, see `Shard`.
        f: Force on each particle [N], gravity apart, shape (particle_count,).
        corner: Force of each element on each of its corners [N].
    """

    def __init__(self, model: Model):
        self.model = model
        warn_of_weak_triangles(model)
        world = model.particle_world.numpy() if model.particle_count else np.zeros(0, int)
        self.starts: dict[str, np.ndarray] = {}
        self.orders: dict[str, wp.array] = {}
        self.places: dict[str, int] = {}
        owners, place = [], 0
        for kind, corners in (("spring", 2), ("tri", 3), ("edge", 4), ("tet", 4)):
            count = getattr(model, f"{kind}_count")
            indices = np.zeros((0, corners), int)
            if count:
                indices = getattr(model, f"{kind}_indices").numpy().reshape(-1, corners)
            # an edge at a border bends nothing
            whole = np.flatnonzero(np.all(indices >= 0, axis=1))
            found = order_by_world(whole, world[indices[whole, 0]], model)
            self.orders[kind], self.starts[f"penalty_{kind}"] = found.order, found.start
            self.places[kind] = place
            used = np.full((count, corners), -1)
            used[whole] = indices[whole]
            owners.append(used.reshape(-1))
            place += count * corners
        owner = np.concatenate(owners)
        self.slots = slots_of(owner, np.arange(place), model.particle_count, model.device)
        grad = {"device": model.device, "requires_grad": model.requires_grad}
        self.corner = zeros(place, dtype=wp.vec3, **grad)
        self.f = zeros(model.particle_count, dtype=wp.vec3, **grad)

    def apply(self, launch: Launcher, state: State, control: Control) -> None:
        """Write the forces on corners at the start of a step; `sum_up` is what makes forces of them."""
        model, motion = self.model, dict(x=state.particle_q, v=state.particle_qd)
        if len(self.orders["spring"]):
            launch(
                penalty_elements.pull_springs,
                "penalty_spring",
                reads=dict(
                    order=self.orders["spring"],
                    indices=model.spring_indices,
                    rest_length=model.spring_rest_length,
                    stiffness=model.spring_stiffness,
                    damping=model.spring_damping,
                    control=model.spring_control,
                    **motion,
                    place=self.places["spring"],
                ),
                writes=dict(corner=self.corner),
            )
        if len(self.orders["tri"]):
            launch(
                penalty_elements.stretch_triangles,
                "penalty_tri",
                reads=dict(
                    order=self.orders["tri"],
                    indices=model.tri_indices,
                    poses=model.tri_poses,
                    areas=model.tri_areas,
                    materials=model.tri_materials,
                    activations=control.tri_activations,
                    **motion,
                    place=self.places["tri"],
                ),
                writes=dict(corner=self.corner),
            )
        if len(self.orders["edge"]):
            launch(
                penalty_elements.bend_edges,
                "penalty_edge",
                reads=dict(
                    order=self.orders["edge"],
                    indices=model.edge_indices,
                    rest_angle=model.edge_rest_angle,
                    rest_length=model.edge_rest_length,
                    properties=model.edge_bending_properties,
                    **motion,
                    place=self.places["edge"],
                ),
                writes=dict(corner=self.corner),
            )
        if len(self.orders["tet"]):
            launch(
                penalty_elements.squeeze_tetrahedra,
                "penalty_tet",
                reads=dict(
                    order=self.orders["tet"],
                    indices=model.tet_indices,
                    poses=model.tet_poses,
                    materials=model.tet_materials,
                    activations=control.tet_activations,
                    **motion,
                    place=self.places["tet"],
                ),
                writes=dict(corner=self.corner),
            )

    def sum_up(self, launch: Launcher, state: State) -> None:
        """Write external forces and those on corners to `f`."""
        launch(
            sums.sum_forces,
            "particle",
            reads=dict(
                start=self.slots.start, slot=self.slots.slot, corner=self.corner, external=state.particle_f
            ),
            writes=dict(f=self.f),
        )
