"""Views: elements of chosen worlds, selected by patterns of their labels, and their fields by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import warp as wp

from newtonsim.errors import ModelError, NewtonsimError, did_you_mean
from newtonsim.fields.field import Field, copy_entries
from newtonsim.fields.presence import check_trees
from newtonsim.fields.selection import Selection, choose_worlds
from newtonsim.fields.table import FIELDS, GROUPS, FieldSpec, find_field
from newtonsim.fields.updates import check_changeable, follow
from newtonsim.kinematics import eval_fk, eval_ik
from newtonsim.scene.allocation import put
from newtonsim.scene.control import Control
from newtonsim.scene.joint_types import quaternion_starts
from newtonsim.scene.model import Model
from newtonsim.scene.state import State

if TYPE_CHECKING:
    import numpy.typing as npt


_ALWAYS_READ = ("gravity", "constraints.enabled")
"""Fields read in each step by solvers that copy everything else when they are created."""


class Simulation(Protocol):
    """What a view needs of a simulation; `Simulator` is one."""

    model: Model
    solver: Any

    @property
    def state(self) -> State:
        """The current state."""
        ...

    @property
    def control(self) -> Control:
        """The inputs that every step reads."""
        ...


class View:
    """Bodies, joints, shapes, constraints and particles of chosen worlds, and their fields.

    `view.bodies.mass`, `view.joints.q`, `view.shapes.friction`, `view.gravity` and the other names of
    `newtonsim.fields.FIELDS` are arrays (worlds, n, ...): see `Field`. Assigning to them changes the model,
    and all that depends on it: inverse masses and inertias, radii and boxes of shapes, lever arms of joints,
    poses of bodies from joint coordinates and vice versa. Sleeping bodies wake up.

    Elements are chosen by their labels, with `*`, `?` and `[...]`: "leg_*", or prefixed with the label of the
    articulation, "robot*/leg_*". Shapes are also selected by the labels of their bodies. A group may be empty
    if it is not used.

    Examples:
        >>> import numpy as np
        >>> from newtonsim import FeatherstoneSolver, ModelBuilder, Simulator, View
        >>> world = ModelBuilder(up_vector=(0, 0, 1))
        >>> world.add_shape_box(world.add_body(key="crate"), hx=0.1, hy=0.1, hz=0.1)
        0
        >>> scene = ModelBuilder(up_vector=(0, 0, 1))
        >>> scene.replicate(world, 3)
        >>> model = scene.finalize("cpu")
        >>> view = View(Simulator(model, FeatherstoneSolver(model), 0.01), "cr*")
        >>> view.bodies.mass = np.array([[1.0], [2.0], [4.0]])
        >>> view.bodies.mass *= 2.0
        >>> model.body_inv_mass.numpy().tolist()
        [0.5, 0.25, 0.125]
        >>> view.gravity = [[0, 0, -9.81], [0, 0, -3.7], [0, 0, -1.6]]
        >>> view.bodies.q.shape, view.joints.q[0, 2]
        ((3, 1, 7), np.float32(0.0))

    Args:
        source: A model, or a Simulator. For a model, `q`, `qd` and `act` are the initial values of states and
            inputs.
        pattern: Pattern of labels.
        worlds: Worlds: indices or a mask of booleans (world_count,); None for all.

    Attributes:
        model: The model.
        worlds: Indices of the worlds, int32.

    Raises:
        NewtonsimError: There are no such worlds, or no label in any group matches.
    """

    def __init__(self, source: Model | Simulation, pattern: str = "*", worlds: npt.ArrayLike | None = None):
        is_model = isinstance(source, Model)
        if not is_model and not isinstance(getattr(source, "model", None), Model):
            raise ModelError(f"View: expected a Model or a Simulator, got a {type(source).__name__}")
        if not isinstance(pattern, str):
            raise NewtonsimError(f"pattern: expected a string, got {pattern!r}")
        self._sim: Simulation | None = None if is_model else source
        self.model: Model = source if is_model else source.model
        self.worlds = choose_worlds(self.model.world_count, worlds)
        self._pattern = pattern
        self._groups: dict[str, Group] = {}
        self._selections: dict[str, Selection] = {}
        self._quaternions: np.ndarray | None = None
        if pattern != "*":
            self._find_something()

    def __getattr__(self, name: str) -> Group | Field:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in GROUPS:
            if name not in self._groups:
                self._groups[name] = Group(self, name)
            return self._groups[name]
        if name in FIELDS:
            return self.field(name)
        known = [*GROUPS, *(spec.name for spec in FIELDS.values() if not spec.group)]
        raise AttributeError(
            f"a view has no {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIELDS:
            self.write(name, value)
        elif name in GROUPS:
            raise AttributeError(f"{name}: assign to one of its fields")
        elif name in ("model", "worlds") or name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self.__getattr__(name)  # says what there is

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *GROUPS, *(s.name for s in FIELDS.values() if not s.group)})

    def __repr__(self) -> str:
        return f"<View of {self._pattern!r} in {len(self.worlds)} of {self.model.world_count} worlds>"

    def selection(self, group: str) -> Selection:
        """Return the selected elements of a group.

        Raises:
            NewtonsimError: There are none; the error says what there is.
        """
        if group not in self._selections:
            self._selections[group] = Selection(self.model, group, self._pattern, self.worlds)
        return self._selections[group]

    def field(self, name: str) -> Field:
        """Return a field by its name, such as "bodies.mass".

        Raises:
            NewtonsimError: There is no such field, or no element that has it.
        """
        spec = find_field(name)
        if spec.per == "world":
            index, names = self.worlds[:, None], ()
        else:
            index, names = self.selection(spec.group).entries(spec.per)
        return Field(spec, self, index, names, self.worlds, self.model.world_count)

    def write(self, name: str, values: Any, worlds: Any = None) -> None:
        """Change a field, see `Field.write`."""
        if isinstance(values, Field) and values.spec.name == name and values.owner is self:
            return  # what `view.bodies.mass *= 2` assigns has been written
        self.field(name).write(values, worlds)

    def _find_something(self) -> None:
        """Raise the error for bodies, or for an existing group, if the pattern selects nothing."""
        errors = []
        for group in GROUPS[:4]:
            try:
                self.selection(group)
            except NewtonsimError as error:
                errors.append(str(error))
        if len(errors) == 4:
            some = [e for e in errors if not e.startswith("the model has no")]
            raise NewtonsimError("; ".join(some or errors))

    def array_of(self, spec: FieldSpec) -> wp.array:
        """See `FieldOwner`."""
        owner: object = self.model
        attribute = spec.attribute
        if spec.owner != "model":
            if self._sim is not None:
                owner = getattr(self._sim, spec.owner)
            elif not spec.initial:
                raise NewtonsimError(f"{spec.name}: a model has none; create the view from a Simulator")
        for part in attribute.split("."):
            owner = getattr(owner, part)
        return owner  # pyright: ignore[reportReturnType]

    def quaternions_of(self, spec: FieldSpec) -> np.ndarray:
        """See `FieldOwner`."""
        array = self.array_of(spec)
        if array.dtype is wp.transformf:
            return 7 * np.arange(array.size) + 3
        if spec.name != "joints.q":
            return np.zeros(0, int)
        if self._quaternions is None:
            kinds, starts = self.model.joint_type.numpy(), self.model.joint_q_start.numpy()
            self._quaternions = quaternion_starts(kinds, starts[: len(kinds)])
        return self._quaternions

    def check_change(self, field: Field, index: np.ndarray, words: wp.array) -> None:
        """See `FieldOwner`: refuse changes that would have no effect."""
        spec, model = field.spec, self.model
        if spec.owner == "model" and spec.name not in _ALWAYS_READ and self._sim is not None:
            if not self._sim.solver.reads_model:
                kind = type(self._sim.solver).__name__
                raise ModelError(
                    f"{spec.name}: {kind} copied the model when it was created; create a new one"
                )
        if spec.name == "bodies.present":
            if self._sim is not None and not self._sim.solver.lets_bodies_be_absent:
                raise ModelError(f"{spec.name}: {type(self._sim.solver).__name__} moves all bodies")
            check_trees(model, index, words.numpy().reshape(index.shape))
        check_changeable(model, spec, index)

    def follow_change(self, spec: FieldSpec, worlds: np.ndarray, mask: wp.array) -> None:
        """See `FieldOwner`."""
        model = self.model
        if spec.owner == "model":
            if spec.name == "gravity":
                model.gravity = model.gravity if model.world_count > 1 else model.gravity[0]
            follow(model, spec.attribute)
            if spec.name in ("joints.X_p", "joints.X_c"):
                self._place("joints", worlds, mask)
            wake = getattr(self._sim and self._sim.solver, "wake", None)
            if wake is not None:
                wake(mask if mask.size else self._mask_of(worlds))
        elif spec.name in ("joints.q", "joints.qd", "bodies.q", "bodies.qd") and model.joint_count:
            self._place(spec.group, worlds, mask)

    def _mask_of(self, worlds: np.ndarray) -> wp.array:
        """A mask of worlds."""
        mask = np.zeros(self.model.world_count, bool)
        mask[worlds] = True
        return put(mask, dtype=bool, device=self.model.device)

    def _place(self, group: str, worlds: np.ndarray, mask: wp.array) -> None:
        """Update bodies from joints or joints from bodies, and leave other worlds unchanged."""
        model, state = self.model, self._state()
        everywhere = not mask.size and len(worlds) == model.world_count
        found = state if everywhere else state.clone()
        if group == "joints":
            eval_fk(model, state.joint_q, state.joint_qd, None, found)
            world: np.ndarray = model.body_world.numpy()
            owners = {"body_q": world, "body_qd": world}
        else:
            eval_ik(model, state, found.joint_q, found.joint_qd)
            world = model.joint_world.numpy()
            starts = {"joint_q": model.joint_q_start, "joint_qd": model.joint_qd_start}
            owners = {name: _world_by_entry(world, start.numpy()) for name, start in starts.items()}
        if not everywhere:
            for name, owner in owners.items():
                copy_entries(getattr(found, name), getattr(state, name), owner, worlds, mask)

    def _state(self) -> State:
        """Return the state that fields belong to; for a model, its initial state."""
        if self._sim is not None:
            return self._sim.state
        state = State()
        for spec in FIELDS.values():
            if spec.owner == "state" and spec.initial:
                setattr(state, spec.initial, getattr(self.model, spec.initial))
        for name, like in (("body_f", state.body_qd), ("particle_f", state.particle_q)):
            if like is not None:
                setattr(state, name, wp.zeros_like(like, requires_grad=False))
        return state


def _world_by_entry(world: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the world of each coordinate or degree of freedom, from that of each joint."""
    return np.repeat(world, np.diff(start))


class Group:
    """The elements of one kind in a view; its attributes are their fields.

    Args:
        view: The view.
        group: "bodies", "joints", "shapes", "constraints" or "particles".
    """

    def __init__(self, view: View, group: str):
        self._view, self._group = view, group

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the elements of a world."""
        return self._view.selection(self._group).names

    @property
    def indices(self) -> np.ndarray:
        """Indices of the elements in the model's arrays with one entry for each, (worlds, n)."""
        return self._view.selection(self._group).index.copy()

    def __len__(self) -> int:
        return len(self.names)

    def __getattr__(self, name: str) -> Field:
        if name.startswith("_"):
            raise AttributeError(name)
        full = f"{self._group}.{name}"
        if full not in FIELDS:
            known = self._keys()
            raise AttributeError(
                f"{self._group} have no field {name!r}{did_you_mean(name, known)}; "
                f"there are {', '.join(known)}"
            )
        return self._view.field(full)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        full = f"{self._group}.{name}"
        if full not in FIELDS:
            getattr(self, name)
        self._view.write(full, value)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._keys()})

    def __repr__(self) -> str:
        return f"<{self._group} {', '.join(self.names)}>"

    def _keys(self) -> list[str]:
        return [spec.key for spec in FIELDS.values() if spec.group == self._group]
