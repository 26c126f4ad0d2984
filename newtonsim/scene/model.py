"""The part of a simulation that does not change with time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.arguments import show
from newtonsim.errors import ModelError
from newtonsim.kernels.views.structs import ModelShapeGeometry, ModelShapeMaterials
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.array_types import DerivedArrays, ModelArrays
from newtonsim.scene.arrays import (
    CONTROL_ARRAYS,
    COUNTS,
    LARGEST_NUMBER,
    LARGEST_RATE,
    MODEL_ARRAYS,
    RIGID_CONTACT_NAMES,
    SOFT_CONTACT_ARRAYS,
    SPECS,
    STATE_ARRAYS,
)
from newtonsim.scene.columns import Column, distinct
from newtonsim.scene.control import Control
from newtonsim.scene.description import DescriptionMethods
from newtonsim.scene.fitting import Sizes
from newtonsim.scene.late_ground import append_ground
from newtonsim.scene.pickling import filled, pack, unpack
from newtonsim.scene.replacement import check_replacement
from newtonsim.scene.revisions import Revised, counted
from newtonsim.scene.state import State

_T = TypeVar("_T")
NUMBERS = (
    "rigid_contact_margin",
    "rigid_contact_torsional_friction",
    "rigid_contact_rolling_friction",
    "soft_contact_radius",
    "soft_contact_margin",
    "soft_contact_ke",
    "soft_contact_kd",
    "soft_contact_kf",
    "soft_contact_mu",
    "soft_contact_restitution",
    "particle_max_velocity",
)
"""Plain numbers that kernels read and users assign."""

MEDIUM = ("density", "viscosity", "wind")
"""Keys of `Model.solver_hint` that describe the medium around bodies [kg/m³, Pa s, m/s]."""

_STRUCTS = ("shape_materials", "shape_geo")

_RESIZED = frozenset(
    (
        *(spec.name for spec in SOFT_CONTACT_ARRAYS),
        "soft_contact_tids",
        "shape_contact_pairs",
        "shape_ground_contact_pairs",
    )
)
"""Arrays that may be replaced by longer or shorter ones; all others keep their shape."""


@dataclass(frozen=True)
class ContactRules:
    """What decides whether two shapes may collide.

    Attributes:
        rigid: Shapes with the same number cannot move relative to each other, -1 for static ones,
            shape (shape_count,).
        group: Collision groups, -1 collides with all, shape (shape_count,).
        collides: Shapes that collide with other shapes, bool, shape (shape_count,).
        meets_ground: Shapes that collide with the ground plane, bool, shape (shape_count,).
        filter_keys: Pairs a < b that pass through each other, as a * shape_count + b, sorted, shape (n,).
    """

    rigid: np.ndarray
    group: np.ndarray
    collides: np.ndarray
    meets_ground: np.ndarray
    filter_keys: np.ndarray


class ContactBuffer(Protocol):
    """What a model needs of its contact buffers; `newtonsim.collision.contacts.Contacts` is one.

    Attributes:
        rigid_contact_max: Capacity, summed over all worlds.
    """

    rigid_contact_max: int


class ContactBuffers(Protocol):
    """Makes the contact buffers of a model; whoever makes the model passes it in."""

    def __call__(self, model: "Model") -> ContactBuffer:
        """Return a new buffer, large enough for every contact that the model can have."""
        ...

    def room(self, model: "Model") -> int:
        """Return the capacity of a buffer of the model, summed over all worlds."""
        ...


class _RigidContactArray:
    """Attribute that belongs to the model's default contact buffer; None until there is one."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: "Model | None", owner: type | None = None):
        if model is None:
            return self
        return getattr(model._default_contacts(), self.name, None)


class Model(ModelArrays, DerivedArrays, Revised, DescriptionMethods):
    """A scene on a device: bodies, joints, shapes, particles and their properties, flat over all worlds.

    Create one with `ModelBuilder.finalize`. The arrays that come from the builder, with their types and
    units, are the rows of `newtonsim.scene.arrays.MODEL_ARRAYS`. What other rooms compute from a model once,
    such as its trees of joints and its collision plan, is kept with it, see `cached`. The other attributes
    are:

    Attributes:
        requires_grad: Whether gradients can flow to the arrays.
        num_envs: Number of worlds that `add_builder` and `replicate` added.
        world_count: Number of worlds, at least 1.
        world_body_start: First body of each world and the end of the last, NumPy int32 (world_count + 1,);
            likewise `world_joint_start`, `world_coord_start`, `world_dof_start`, `world_shape_start`,
            `world_particle_start`.
        gravity_vec: Gravity of each world [m/s^2], shape [world_count], see `gravity`.
        particle_inv_mass: Inverse masses [1/kg], shape [particle_count]; 0 for kinematic particles.
        particle_max_radius: Largest particle radius [m].
        particle_max_velocity: Speed to which particles are limited [m/s].
        particle_color_groups: Particles of each colour, list of int arrays.
        particle_colors: Colour of each particle, shape [particle_count].
        bodies_may_be_absent: Whether `body_present` may be 0 anywhere; solvers read it only then.
        body_inv_mass: Inverse masses [1/kg], shape [body_count]; 0 for kinematic bodies.
        body_inv_inertia: Inverse inertias, shape [body_count], mat33.
        joint_q_start: First coordinate of each joint and the total, shape [joint_count + 1].
        joint_qd_start: First degree of freedom of each joint and the total, shape [joint_count + 1].
        joint_ancestor: Joint above the parent body of each joint, -1 if none, shape [joint_count].
        joint_mimic: Tuples (joint, other joint, factor, offset).
        articulation_start: First joint of each articulation and the end, shape [articulation_count + 1].
        articulation_key: Names of the articulations.
        shape_materials: Contact materials, ModelShapeMaterials.
        shape_geo: Geometry, ModelShapeGeometry.
        shape_collision_radius: Radius of a sphere about the shape's origin that contains it [m], shape
            [shape_count].
        shape_contact_pairs: Pairs of shapes that may collide, the ground left out, shape [n, 2], ordered by
            world; None if a world is too crowded to list them; the collision pass then finds them by a sweep.
        contact_rules: What decides whether two shapes may collide, see `ContactRules`.
        shape_ground_contact_pairs: Pairs (shape, ground plane) that may collide, shape [n, 2].
        ground_shape: Index of the ground plane, the last shape; -1 if the builder set none and `ground` was
            never switched on.
        ground_plane: (nx, ny, nz, d) with n·x + d = 0, shape [4].
        muscle_start: First waypoint of each muscle and the end, shape [muscle_count + 1].
        up_vector: Up direction, NumPy (3,).
        up_axis: 0, 1 or 2.
        rigid_contact_margin: Gap below which contacts are created [m].
        rigid_contact_torsional_friction: Torsional friction coefficient of XPBD.
        rigid_contact_rolling_friction: Rolling friction coefficient of XPBD.
        rigid_pair_max_per_world: Capacity for pairs of nearby shapes in each world, 0 to derive it from the
            shapes; set it before contacts are first needed.
        rigid_contact_max_per_world: Capacity for contacts in each world, in the same way.
        rigid_contact_*, soft_contact_*: Contact buffers, None until allocated.
        sites: Dicts with "name", "body", "xform".
        keyframes: Dicts with "name", "joint_q", "joint_qd", "joint_act"; those of MJCF files also with
            "ctrl" and "act", MuJoCo's of each entry of `ImportReport.actuators` (0 where it has none).
        solver_hint: Settings that a file asked for.
        device: Device of the arrays.

    Args:
        device: Device of the arrays.
        contact_buffers: Makes its contact buffers; None for a model without collisions.
        ground_plane: Describes the ground plane that it gets when the ground is switched on late, see
            `append_ground`; None for a model that cannot get one.
    """

    contact_rules: ContactRules

    for _name in RIGID_CONTACT_NAMES:
        locals()[_name] = _RigidContactArray()
    del _name

    def __init__(
        self,
        device: wp.DeviceLike = None,
        contact_buffers: ContactBuffers | None = None,
        ground_plane: Callable[[], dict[str, Any]] | None = None,
    ):
        self.device = wp.get_device(device)
        self.requires_grad = False
        self.num_envs = 0
        self.world_count = 1
        for spec in MODEL_ARRAYS:
            if not spec.host:
                setattr(self, spec.name, None)
        for count in COUNTS.values():
            setattr(self, count, 0)
        for spec in SOFT_CONTACT_ARRAYS:
            setattr(self, spec.name, None)
        for name in (*DerivedArrays.__annotations__, "contact_rules"):
            setattr(self, name, None)
        self._create_particle_attributes()
        self._create_body_attributes()
        self._create_shape_attributes()
        self._create_contact_attributes()
        self.up_vector = np.array([0.0, 1.0, 0.0])
        self.up_axis = 1
        self.gravity = (0.0, -9.81, 0.0)
        self.sites: list[dict] = []
        self.keyframes: list[dict] = []
        self.solver_hint: dict = {}
        self._kept: list = []
        self._contact_buffers = contact_buffers
        self._ground_plane = ground_plane
        self._cached: dict[str, Any] = {}

    def _create_particle_attributes(self) -> None:
        self.particle_max_radius = 0.0
        self.particle_max_velocity = 1.0e5
        self.particle_color_groups: list[wp.array] = []

    def _create_body_attributes(self) -> None:
        self.bodies_may_be_absent = False
        self.joint_mimic: list[tuple[int, int, float, float]] = []
        self.articulation_key: list[str] = []
        self.articulation_count = 0
        self.world_body_start = np.zeros(2, np.int32)
        self.world_joint_start = np.zeros(2, np.int32)
        self.world_coord_start = np.zeros(2, np.int32)
        self.world_dof_start = np.zeros(2, np.int32)
        self.world_shape_start = np.zeros(2, np.int32)
        self.world_particle_start = np.zeros(2, np.int32)

    def _create_shape_attributes(self) -> None:
        self.shape_geo_src = Column(SPECS["shape_geo_src"])
        self.shape_collision_group = Column(SPECS["shape_collision_group"])
        self.shape_contact_pair_count = 0
        self.shape_ground_contact_pair_count = 0
        self.ground_shape = -1
        self.ground = False

    def _create_contact_attributes(self) -> None:
        self.soft_contact_radius = 0.2
        self.soft_contact_margin = 0.2
        self.soft_contact_ke = 1.0e3
        self.soft_contact_kd = 10.0
        self.soft_contact_kf = 1.0e3
        self.soft_contact_mu = 0.5
        self.soft_contact_restitution = 0.0
        self.rigid_contact_margin = 0.01
        self.rigid_contact_torsional_friction = 0.5
        self.rigid_contact_rolling_friction = 0.001
        self.rigid_mesh_contact_max = 0
        self.rigid_pair_max_per_world = 0
        self.rigid_contact_max_per_world = 0

    def __setattr__(self, name: str, value: object) -> None:
        before = self.__dict__.get(name)
        if isinstance(before, wp.array):
            if name not in _RESIZED:
                check_replacement(name, before, value)
        elif name in _STRUCTS and before is not None:
            for part in before._cls.vars:
                check_replacement(f"{name}.{part}", getattr(before, part), getattr(value, part, None))
        elif name in NUMBERS and not _is_fit(value):
            raise ModelError(f"{name}: expected a number from 0 to {LARGEST_NUMBER:g}, got {show(value)}")
        super().__setattr__(name, value)

    def resize(self, name: str, value: object) -> None:
        """Replace an array, or a struct of arrays, by one of another length; the caller updates counts."""
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_cached", "_kept", "device")
        held = {name: pack(value) for name, value in vars(self).items() if name not in left_out}
        return held | {"device": str(self.device)}

    def __setstate__(self, held: dict[str, Any]) -> None:
        device = wp.get_device(held["device"])
        own = {name: unpack(value, device) for name, value in held.items()}
        own |= {"device": device, "_cached": {}, "_kept": []}
        for name, struct in (("shape_materials", ModelShapeMaterials), ("shape_geo", ModelShapeGeometry)):
            if own.get(name) is not None:
                own[name] = filled(counted(struct), own[name])
        self.__dict__.update(own)
        if self.shape_count:
            self.shape_geo.source = put(self.put_sources(), dtype=wp.uint64, device=device)

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(vars(self))
        twin.__dict__["_cached"] = {}
        return twin

    def put_sources(self) -> np.ndarray:
        """Put meshes and fields of the shapes on the device; return their ids (shape_count,), 0 for none."""
        sources, place = distinct(self.shape_geo_src)
        ids = np.zeros(len(sources), np.uint64)
        for number, source in enumerate(sources):
            if source is not None:
                ids[number] = source.finalize(self.device)
                self.keep_alive(getattr(source, "mesh", source))
        return ids[place]

    @property
    def gravity(self) -> np.ndarray:
        """Acceleration of gravity [m/s^2] (3,), or (world_count, 3) once worlds have their own.

        Assign either to change it. Kernels read `gravity_vec`, which has a row for each world, and may write
        to it if worlds have their own.

        Raises:
            ModelError: Values are not finite, too large or of another shape, or worlds are to differ although
                something that moves belongs to no world.
        """
        if self.gravity_per_world:
            return self.gravity_vec.numpy().astype(np.float64)
        return self._gravity.copy()

    @gravity.setter
    def gravity(self, value: npt.ArrayLike) -> None:
        worlds = self.world_count
        try:
            vector = np.array(value, np.float64)
        except (TypeError, ValueError, OverflowError):
            vector = np.zeros(0)
        if vector.shape not in ((3,), (worlds, 3)) or not np.all(np.isfinite(vector)):
            raise ModelError(
                f"gravity: expected 3 finite numbers, or shape ({worlds}, 3) with a row for each world, "
                f"got {value!r}"
            )
        if vector.size and np.abs(vector).max() > LARGEST_RATE:
            raise ModelError(f"gravity: expected at most {LARGEST_RATE:g} m/s^2, got {value!r}")
        if vector.ndim == 2 and worlds > 1:
            check_worlds_apart(self)
        self._gravity = vector
        rows: np.ndarray = np.broadcast_to(vector.astype(np.float32), (worlds, 3))
        held = self.__dict__.get("gravity_vec")
        if held is None or len(held) != worlds:
            self.resize("gravity_vec", put(rows, dtype=wp.vec3, device=self.device))
        elif self.device.is_cpu:
            held.numpy()[...] = rows  # the memory of the array, in a tenth of the time
        else:
            held.assign(rows)

    @property
    def gravity_per_world(self) -> bool:
        """Whether worlds have their own gravity."""
        return self._gravity.ndim == 2

    @property
    def largest_gravity(self) -> float:
        """Magnitude of the largest gravity assigned to a world [m/s^2], known without a read-back."""
        return float(np.linalg.norm(self._gravity, axis=-1).max())

    @property
    def ground(self) -> bool:
        """Whether shapes collide with the ground plane; may be switched off and on again.

        If the builder set no plane, one through the origin, normal to the up vector and with the builder's
        default material, becomes the last shape when the ground is first switched on.

        Raises:
            ModelError: This happens after a solver, a query or a contact buffer has been created.
        """
        return self._ground

    @ground.setter
    def ground(self, value: bool) -> None:
        if value and self.ground_shape < 0:
            append_ground(self, self._makes_ground())
        self._ground = bool(value)

    def settle_shapes(self) -> None:
        """Record that something depends on the existing shapes: from now on none is appended."""
        self.cached("shapes settled", lambda _: True)

    @property
    def shapes_settled(self) -> bool:
        """Whether a solver, a query or a contact buffer depends on the existing shapes."""
        return "shapes settled" in self._cached

    def cached(self, name: str, work_out: Callable[[Self], _T]) -> _T:
        """Return what a function computes from this model, on first use; the result is kept.

        Args:
            name: Name under which it is kept.
            work_out: Called with the model.
        """
        held = self._cached
        if name not in held:
            held[name] = work_out(self)
        return held[name]

    def kept(self, name: str) -> Any:
        """Return what `cached` keeps under a name, None if there is nothing."""
        return self._cached.get(name)

    def forget(self, *names: str) -> None:
        """Drop what `cached` keeps, so that it is computed again from the current arrays.

        Captured graphs continue with what they have. After "collision_plan" is dropped, existing solvers,
        queries and contact buffers must be created again, since it set their sizes: they raise ModelError.

        Args:
            names: Names to drop, such as "contacts" and "collision_plan"; none for everything.
        """
        for name in names or tuple(self._cached):
            self._cached.pop(name, None)

    @property
    def particle_grid(self) -> wp.HashGrid | None:
        """Grid for neighbour searches between particles, None without particles; made at first use."""
        return self.cached("particle_grid", _particle_grid)

    @property
    def body_shapes(self) -> dict[int, list[int]]:
        """Shapes of each body, and under -1 the static ones; made at first use."""
        return self.cached("body_shapes", _body_shapes)

    @property
    def shape_collision_group_map(self) -> dict[int, list[int]]:
        """Shapes of each collision group; made at first use."""
        return self.cached("shape_collision_group_map", _shapes_of_groups)

    @property
    def shape_collision_filter_pairs(self) -> set[tuple[int, int]]:
        """Pairs of shapes that pass through each other, low index first; made at first use."""
        return self.cached("shape_collision_filter_pairs", _filter_pairs)

    @property
    def contacts(self) -> Any:
        """The default contact buffer, made at first use; `rigid_contact_*` attributes are its arrays."""
        return self.cached("contacts", Model.contact)

    def _default_contacts(self) -> ContactBuffer | None:
        """The default contact buffer if it has been made."""
        return self.kept("contacts")

    @property
    def shape_shape_geo(self):
        """Same as `shape_geo`."""
        return self.shape_geo

    @property
    def shape_sources(self) -> Column:
        """Same as `shape_geo_src`: Mesh, SDF or Heightfield of each shape, or None."""
        return self.shape_geo_src

    @property
    def contact_count(self) -> int:
        """Number of rigid contacts that the last collision pass left in the default buffer."""
        count = self.rigid_contact_count
        return 0 if count is None else int(count.numpy()[0])

    @property
    def rigid_contact_max(self) -> int:
        """Capacity of the default contact buffer, 0 before it is made."""
        buffer = self._default_contacts()
        return 0 if buffer is None else buffer.rigid_contact_max

    @property
    def rigid_contact_max_limited(self) -> int:
        """Capacity of the default contact buffer, which takes `rigid_mesh_contact_max` into account."""
        return self.rigid_contact_max

    @property
    def soft_contact_max(self) -> int:
        """Capacity for contacts between particles and shapes."""
        return 0 if self.soft_contact_particle is None else len(self.soft_contact_particle)

    def keep_alive(self, thing: object) -> None:
        """Keep alive an object that a device array refers to by id, such as a `wp.Mesh`."""
        self._kept.append(thing)

    def state(self, requires_grad: bool | None = None) -> State:
        """Return a state with the initial configuration.

        Args:
            requires_grad: Whether gradients can flow to it; None means as for the model.
        """
        grad = self.requires_grad if requires_grad is None else requires_grad
        state = State()
        for spec in STATE_ARRAYS:
            count = getattr(self, COUNTS[spec.per])
            if not count:
                continue
            initial = getattr(self, spec.name, None)
            if initial is None:
                array = zeros(count, dtype=spec.dtype, device=self.device, requires_grad=grad)
            else:
                array = wp.clone(initial, requires_grad=grad)
            setattr(state, spec.name, array)
        return state

    def check_state(self, state: State) -> None:
        """Check that a state has the arrays of this model; kernels do not check.

        Raises:
            ModelError: A length, type or device differs; the message says which and how.
        """
        self.cached("sizes of a state", _state_sizes).check(state)

    def check_control(self, control: Control) -> None:
        """Check that control inputs have the arrays of this model.

        Raises:
            ModelError: A length, type or device differs; the message says which and how.
        """
        self.cached("sizes of a control", _control_sizes).check(control)

    def control(self, requires_grad: bool | None = None, clone_variables: bool = True) -> Control:
        """Return control inputs with the initial values of the model.

        Args:
            requires_grad: Whether gradients can flow to them; None means as for the model.
            clone_variables: Whether the arrays are copies; if not, they are those of the model.
        """
        grad = self.requires_grad if requires_grad is None else requires_grad
        control = Control()
        for spec in CONTROL_ARRAYS:
            count = getattr(self, COUNTS[spec.per])
            if not count:
                continue
            initial = getattr(self, spec.name, None)
            if initial is None:
                initial = zeros(count, dtype=spec.dtype, device=self.device, requires_grad=grad)
            elif clone_variables:
                initial = wp.clone(initial, requires_grad=grad)
            setattr(control, spec.name, initial)
        return control

    def contact(self) -> Any:
        """Return a new contact buffer, large enough for every contact that the model can have."""
        return self._makes_contacts()(self)

    def _makes_contacts(self) -> ContactBuffers:
        if self._contact_buffers is None:
            raise ModelError("the model was made without contact buffers")
        return self._contact_buffers

    def _makes_ground(self) -> dict[str, Any]:
        if self._ground_plane is None:
            raise ModelError("ground: the model was made without a ground plane")
        return self._ground_plane()

    def allocate_soft_contacts(self, count: int, requires_grad: bool = False) -> None:
        """Make room for contacts between particles and shapes.

        Args:
            count: Capacity.
            requires_grad: Whether gradients can flow to the buffers.
        """
        for spec in SOFT_CONTACT_ARRAYS:
            array = zeros(
                count, dtype=spec.dtype, device=self.device, requires_grad=requires_grad and spec.grad
            )
            setattr(self, spec.name, array)
        self.soft_contact_count = zeros(1, dtype=wp.int32, device=self.device)
        self.soft_contact_tids = zeros(
            self.particle_count * max(self.shape_count, 1), dtype=wp.int32, device=self.device
        )

    def count_contact_points(self) -> tuple[int, int]:
        """Count the rigid contact points that all candidate pairs can have.

        Returns:
            The number without and with the limit `rigid_mesh_contact_max`; they are equal, since the geometry
            of each pair bounds its capacity.
        """
        count = self._makes_contacts().room(self)
        return count, count

    def allocate_rigid_contacts(
        self,
        target: object | None = None,
        count: int | None = None,
        limited_contact_count: int | None = None,
        requires_grad: bool = False,
    ) -> None:
        """Create the default contact buffer, or copy its arrays to another object.

        The model determines the capacity, which always suffices.

        Args:
            target: Object that receives the arrays as attributes; None for the model itself.
            count: Least capacity that the caller needs.
            limited_contact_count: The same, after limits.
            requires_grad: Whether gradients can flow to the buffers; contact buffers hold no gradients.

        Raises:
            ModelError: More contacts are requested than the model can have.
        """
        needed = max(count or 0, limited_contact_count or 0)
        if requires_grad:
            raise ModelError("contact buffers hold no gradients; solvers differentiate contacts themselves")
        self.forget("contacts")
        buffer = self.contacts
        if needed > buffer.rigid_contact_max:
            raise ModelError(
                f"{needed} contacts requested, but the model has at most {buffer.rigid_contact_max}"
            )
        if target is not None and target is not self:
            for name in RIGID_CONTACT_NAMES:
                setattr(target, name, getattr(buffer, name, None))


def _state_sizes(model: Model) -> Sizes:
    return Sizes(model, STATE_ARRAYS)


def _control_sizes(model: Model) -> Sizes:
    return Sizes(model, CONTROL_ARRAYS)


def _particle_grid(model: Model) -> wp.HashGrid | None:
    return wp.HashGrid(128, 128, 128, device=model.device) if model.particle_count else None


def _body_shapes(model: Model) -> dict[int, list[int]]:
    body = model.shape_body.numpy() if model.shape_count else np.zeros(0, np.int32)
    return dict(zip(range(-1, model.body_count), _members(body, np.arange(-1, model.body_count))))


def _shapes_of_groups(model: Model) -> dict[int, list[int]]:
    group = np.array(model.shape_collision_group, np.int64)
    groups = np.unique(group)
    return dict(zip(groups.tolist(), _members(group, groups)))


def _filter_pairs(model: Model) -> set[tuple[int, int]]:
    if model.contact_rules is None or not model.shape_count:
        return set()
    pairs = np.divmod(model.contact_rules.filter_keys, model.shape_count)
    return set(zip(*(ends.tolist() for ends in pairs)))


def _members(owner: np.ndarray, owners: np.ndarray) -> list[list[int]]:
    """Return the positions of each of the sorted `owners` in `owner`."""
    order = np.argsort(owner, kind="stable")
    edges = np.searchsorted(owner[order], owners).tolist()
    places = order.tolist()
    return [places[start:end] for start, end in zip(edges, [*edges[1:], len(places)])]


def _is_fit(value: Any) -> bool:
    """Whether a value is a number that kernels can calculate with."""
    try:
        return not isinstance(value, str | bytes) and 0.0 <= float(value) <= LARGEST_NUMBER
    except (TypeError, ValueError, OverflowError):
        return False


def check_worlds_apart(model: Model) -> None:
    """Check that worlds may have their own gravity: every body with mass belongs to one of them.

    Raises:
        ModelError: A particle with mass does not.
    """
    if model.particle_count:
        mass, world = model.particle_mass.numpy(), model.particle_world.numpy()
        loose = np.flatnonzero((world < 0) & (mass > 0.0))
        if len(loose):
            raise ModelError(
                f"gravity: cannot differ between worlds, since particle {loose[0]} belongs to none"
            )


def check_model(model: object) -> None:
    """Check that an argument is a model.

    Raises:
        ModelError: It is something else, such as a builder.
    """
    if not isinstance(model, Model):
        hint = "; finalize() makes one" if hasattr(model, "finalize") else ""
        raise ModelError(f"model: expected a Model, got a {type(model).__name__}{hint}")
