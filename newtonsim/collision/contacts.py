"""Contact points that a collision pass fills."""

from __future__ import annotations

import warnings

import numpy as np
import warp as wp

from newtonsim.collision.plan import CollisionPlan, collision_plan_of
from newtonsim.errors import BufferWarning, ModelError
from newtonsim.kernels.collision import contacts as contact_kernels
from newtonsim.kernels.collision.contacts import ContactView, HistoryView, OverflowView
from newtonsim.kernels.collision.pairs.broad_phase import PlacementView
from newtonsim.kernels.collision.pairs.manifolds import ManifoldView, PairView
from newtonsim.kernels.collision.seams import SeamView
from newtonsim.runtime import compilation
from newtonsim.runtime.residents import keep_on_device
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.model import Model


class Contacts:
    """Contacts between the shapes of a model, packed per world.

    World w owns the places `world_start[w] .. world_start[w + 1]`; the first `world_count[w]` of them are in
    use, the others have shape indices -1. In a model with one world the contacts are the first
    `rigid_contact_count[0]` entries. The capacity is derived from the model's shapes, or set by
    `Model.rigid_contact_max_per_world`; contacts that do not fit are counted and reported once.

    Attributes:
        plan: The collision plan that set the capacity, see `check_contacts`.
        rigid_contact_max: Capacity, summed over all worlds.
        world_start: First place of each world, shape (world_count + 1,).
        world_count: Contacts of each world, shape (world_count,).
        alarm: 1 if a pass found more than there was room for, to be read on the CPU; None on other devices.
        rigid_contact_shape0: Shape index, shape (rigid_contact_max,).
        rigid_contact_shape1: Other shape, shape (rigid_contact_max,).
        rigid_contact_point0: Feature of shape 0 in contact [m] in the frame of its body: a sphere's centre,
            the end of a capsule's axis, else a point on the geometry.
        rigid_contact_point1: Feature of shape 1, likewise.
        rigid_contact_offset0: From point 0 along the normal to the surface [m], radius and thickness
            together, frame of body 0; point and offset add up to the touching point.
        rigid_contact_offset1: From point 1 to the surface, frame of body 1.
        rigid_contact_normal: World direction from shape 1 to shape 0.
        rigid_contact_thickness: Length of both offsets together [m].
        rigid_contact_distance: Gap along the normal [m], negative in penetration.
        rigid_contact_point_id: Number of the contact feature within its pair of shapes, the same as long as
            the feature touches.
        rigid_contact_match: Place of the same contact in the last pass, or -1 for new ones.
        pairs_needed: Pairs of shapes near each other that the last pass found, shape (world_count,).
        contacts_needed: Contacts that the last pass found, whether they fitted or not, shape
            (world_count,).
    """

    rigid_contact_point0: wp.array[wp.vec3]
    rigid_contact_point1: wp.array[wp.vec3]
    rigid_contact_offset0: wp.array[wp.vec3]
    rigid_contact_offset1: wp.array[wp.vec3]
    rigid_contact_normal: wp.array[wp.vec3]
    rigid_contact_thickness: wp.array[wp.float32]
    rigid_contact_distance: wp.array[wp.float32]
    rigid_contact_shape0: wp.array[wp.int32]
    rigid_contact_shape1: wp.array[wp.int32]
    rigid_contact_point_id: wp.array[wp.int32]
    rigid_contact_match: wp.array[wp.int32]

    def __init__(self, model: Model):
        plan = self.plan = collision_plan_of(model)
        device = self.device = model.device
        self.rigid_contact_max = plan.contact_count
        self._total = zeros(1, dtype=int, device=device)
        self.world_start = put(plan.contact_start, dtype=int, device=device)
        self.world_count = zeros(model.world_count, dtype=int, device=device)
        self.pairs_needed = zeros(model.world_count, dtype=int, device=device)
        self.contacts_needed = zeros(model.world_count, dtype=int, device=device)
        view, count = ContactView(), plan.contact_count
        self.rigid_contact_point0 = view.point0 = zeros(count, dtype=wp.vec3, device=device)
        self.rigid_contact_point1 = view.point1 = zeros(count, dtype=wp.vec3, device=device)
        self.rigid_contact_offset0 = view.offset0 = zeros(count, dtype=wp.vec3, device=device)
        self.rigid_contact_offset1 = view.offset1 = zeros(count, dtype=wp.vec3, device=device)
        self.rigid_contact_normal = view.normal = zeros(count, dtype=wp.vec3, device=device)
        self.rigid_contact_thickness = view.thickness = zeros(count, dtype=float, device=device)
        self.rigid_contact_distance = view.distance = zeros(count, dtype=float, device=device)
        self.rigid_contact_shape0 = view.shape0 = zeros(count, dtype=int, device=device)
        self.rigid_contact_shape1 = view.shape1 = zeros(count, dtype=int, device=device)
        self.rigid_contact_point_id = view.feature = zeros(count, dtype=int, device=device)
        self.rigid_contact_match = view.match = zeros(count, dtype=int, device=device)
        self.rigid_contact_shape0.fill_(-1)
        self.rigid_contact_shape1.fill_(-1)
        view.world_start = self.world_start
        view.world_count = self.world_count
        view.world = plan.contact_world
        view.pair = zeros(count, dtype=int, device=device)
        view.point = zeros(count, dtype=int, device=device)
        self.view = view
        keep_on_device(device, view)
        self._allocate_passes(model, plan)
        self._warned = False

    def _allocate_passes(self, model: Model, plan: CollisionPlan) -> None:
        """Allocate what the passes hand to each other."""
        device = self.device
        self.placement = _placement(plan.paired, device)
        self.pairs = _pairs(plan, device)
        self.manifolds = _manifolds(plan, device)
        self.seams = _seams(model.body_count if plan.has_seams else 0, plan, device)
        self.history = _history(model.shape_count, plan, device)
        self.overflow = OverflowView()
        self.overflow.pairs_needed = self.pairs_needed
        self.overflow.contacts_needed = self.contacts_needed
        self.overflow.most_pairs = zeros(model.world_count, dtype=int, device=device)
        self.overflow.most_contacts = zeros(model.world_count, dtype=int, device=device)
        self.overflow.any = zeros(1, dtype=int, device=device)
        # on the CPU the array is read without a copy, which is cheap enough for every step
        self.alarm = self.overflow.any.numpy().data if device.is_cpu else None
        if plan.sweep_entries is not None and plan.sweep_start is not None:
            self.sweep = plan.sweep_view()
            self.sweep_world = _owners(plan.sweep_start, device)

    @staticmethod
    def room(model: Model) -> int:
        """Return the capacity of a buffer of the model, summed over all worlds."""
        return collision_plan_of(model).contact_count

    @property
    def rigid_contact_count(self) -> wp.array:
        """Number of contacts in all worlds, shape (1,); computed at each access."""
        compilation.launch(
            contact_kernels.sum_counts,
            1,
            reads=dict(world_count=self.world_count),
            writes=dict(total=self._total),
            device=self.device,
            record_tape=False,
        )
        return self._total

    def carried_arrays(self) -> list[wp.array]:
        """Arrays that identify the contacts of this pass to the next one, which matches its own with them."""
        view, pairs = self.view, self.pairs
        return [
            self.world_count,
            view.pair,
            view.feature,
            view.point0,
            pairs.shape0,
            pairs.shape1,
            pairs.entry,
        ]

    def clear(self) -> None:
        """Forget all contacts."""
        self.world_count.zero_()
        self.rigid_contact_shape0.fill_(-1)
        self.rigid_contact_shape1.fill_(-1)

    def warn_of_overflow(self) -> None:
        """Warn once if a pass found more contacts than fit, with the capacity that is needed.

        Reads from the device, which waits for it.
        """
        if self._warned:
            return
        missing = self.overflow.any.numpy() if self.alarm is None else self.alarm
        if missing[0] == 0:
            return
        self._warned = True
        most_pairs, most_contacts = self.overflow.most_pairs.numpy(), self.overflow.most_contacts.numpy()
        pairs, contacts = most_pairs.max(), most_contacts.max()
        lost = []
        if pairs:
            lost.append(f"{pairs} pairs of shapes (set Model.rigid_pair_max_per_world)")
        if contacts:
            lost.append(f"{contacts} contacts (set Model.rigid_contact_max_per_world)")
        needed = most_contacts if contacts else most_pairs
        warnings.warn(
            f"contact buffers are too small and contacts are missing: a world needs room for "
            f"{' and '.join(lost)}; most in world {int(np.argmax(needed))}",
            BufferWarning,
            stacklevel=3,
        )


Contact = Contacts


def check_contacts(model: Model, contacts: Contacts) -> None:
    """Check that a contact buffer belongs to a model; kernels do not check.

    Args:
        model: The model.
        contacts: The buffer.

    Raises:
        ModelError: It belongs to another model, or was created before the model's plan was forgotten.
    """
    if not isinstance(contacts, Contacts):
        raise ModelError(f"contacts: expected Contacts, got a {type(contacts).__name__}")
    if contacts.plan is not collision_plan_of(model):
        raise ModelError(
            "contacts: expected a buffer of the model, such as model.contact() makes, got one of another "
            "model, or one created before Model.forget"
        )


def _owners(start: np.ndarray, device: wp.Device) -> wp.array:
    return put(np.repeat(np.arange(len(start) - 1), np.diff(start)), dtype=int, device=device)


def _placement(paired: np.ndarray, device: wp.Device) -> PlacementView:
    shapes = len(paired)
    place = PlacementView()
    place.X = zeros(shapes, dtype=wp.transform, device=device)
    nothing = np.full((shapes, 3), np.inf)
    place.lower = put(nothing, dtype=wp.vec3, device=device)
    place.upper = put(-nothing, dtype=wp.vec3, device=device)
    place.velocity = zeros(shapes, dtype=wp.vec3, device=device)
    place.travel = zeros(shapes, dtype=wp.vec3, device=device)
    place.spin = zeros(shapes, dtype=float, device=device)
    place.grow = zeros(shapes, dtype=float, device=device)
    place.awake = put(np.full(shapes, 1), dtype=int, device=device)
    place.paired = put(paired, dtype=int, device=device)
    return place


def _pairs(plan: CollisionPlan, device: wp.Device) -> PairView:
    pairs = PairView()
    pairs.world_start = put(plan.pair_start, dtype=int, device=device)
    pairs.world_count = zeros(len(plan.pair_start) - 1, dtype=int, device=device)
    pairs.world = _owners(plan.pair_start, device)
    pairs.shape0 = zeros(plan.pair_count, dtype=int, device=device)
    pairs.shape1 = zeros(plan.pair_count, dtype=int, device=device)
    pairs.entry = zeros(0 if plan.listed is None else plan.pair_count, dtype=int, device=device)
    pairs.family = zeros(plan.pair_count, dtype=int, device=device)
    pairs.reach = zeros(plan.pair_count, dtype=float, device=device)
    pairs.travel = zeros(plan.pair_count, dtype=float, device=device)
    return pairs


def _manifolds(plan: CollisionPlan, device: wp.Device) -> ManifoldView:
    manifolds = ManifoldView()
    size = (plan.pair_count, plan.pair_points)
    manifolds.count = zeros(plan.pair_count, dtype=int, device=device)
    manifolds.hidden = zeros(plan.pair_count, dtype=int, device=device)
    manifolds.point = zeros(size, dtype=wp.vec3, device=device)
    manifolds.normal = zeros(size, dtype=wp.vec3, device=device)
    manifolds.distance = zeros(size, dtype=float, device=device)
    manifolds.feature = zeros(size, dtype=int, device=device)
    return manifolds


def _seams(bodies: int, plan: CollisionPlan, device: wp.Device) -> SeamView:
    seams = SeamView()
    seams.head = put(np.full(bodies, -1), dtype=int, device=device)
    entries = 2 * plan.pair_count if bodies else 0
    seams.tiled = put(plan.tiled if bodies else np.zeros(0), dtype=int, device=device)
    seams.next = zeros(entries, dtype=int, device=device)
    seams.plane = zeros(entries, dtype=wp.vec4, device=device)
    return seams


def _history(shapes: int, plan: CollisionPlan, device: wp.Device) -> HistoryView:
    history, count = HistoryView(), plan.pair_count
    if plan.listed is not None:
        shapes, count = 0, len(plan.listed)
    linked = count if plan.listed is None else 0
    history.first = zeros(count, dtype=int, device=device)
    history.end = zeros(count, dtype=int, device=device)
    history.head = put(np.full(shapes, -1), dtype=int, device=device)
    history.next = zeros(linked, dtype=int, device=device)
    history.other = zeros(linked, dtype=int, device=device)
    history.feature = zeros(plan.contact_count, dtype=int, device=device)
    history.point0 = zeros(plan.contact_count, dtype=wp.vec3, device=device)
    return history
