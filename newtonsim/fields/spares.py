"""Trees that enter and leave a model at run time, in places that `ModelBuilder.reserve` has reserved.

Nothing is rebuilt: a place is filled by writing its contents, and captured graphs remain valid.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.collision.plan import CollisionPlan, collision_plan_of, family_tables
from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.fields.presence import presence_of, roots_of_bodies
from newtonsim.fields.selection import Selection, choose_worlds
from newtonsim.fields.table import FIELDS
from newtonsim.fields.tree_rows import TreeRows, copy_numbers, write_rows
from newtonsim.fields.updates import check_changeable, follow
from newtonsim.fields.view import Simulation, View
from newtonsim.kernels.steps import presence as presence_kernels
from newtonsim.kernels.views.shapes import KIND_HULL
from newtonsim.kinematics import eval_fk
from newtonsim.runtime import compilation
from newtonsim.scene.allocation import put
from newtonsim.scene.enums import GeoType
from newtonsim.scene.model import Model

if TYPE_CHECKING:
    import numpy.typing as npt

_PRIMITIVES = (
    GeoType.SPHERE,
    GeoType.BOX,
    GeoType.CAPSULE,
    GeoType.CYLINDER,
    GeoType.CONE,
    GeoType.ELLIPSOID,
)


class Spares:
    """Places for trees in each world of a simulation, see `ModelBuilder.reserve`.

    A tree in a place collides, moves and is visible from the next step on, as if it had always been there;
    all else keeps its state, warm starts and captured graphs, bit for bit, except that sleeping bodies of the
    world wake up. Servos of the place are then off, and its pending forces zero; values that stages of
    `before_step` keep for its bodies are kept.

    Groups, flags and filters of collisions are those of the template. Cameras and viewers created earlier
    show the shapes that a place had then.

    Args:
        sim: The simulation.
        key: Prefix of the labels of the places, as given to `reserve`.

    Attributes:
        names: Labels of the places.

    Raises:
        NewtonsimError: The model has no such places.
        ModelError: The solver cannot leave bodies out.
    """

    def __init__(self, sim: Simulation, key: str = "spare"):
        self.sim, self.model, self.key = sim, sim.model, key
        model = self.model
        if not sim.solver.lets_bodies_be_absent:
            raise ModelError(f"spares: {type(sim.solver).__name__} moves all bodies, even absent ones")
        chosen = Selection(model, "bodies", f"{key}_*", np.arange(model.world_count))
        roots = roots_of_bodies(model)[chosen.index[0]]
        is_place = [re.fullmatch(rf"{re.escape(key)}_\d+", name) is not None for name in chosen.names]
        at_root = np.flatnonzero((roots == chosen.index[0]) & is_place & self._made_of_spares(roots))
        if not len(at_root):
            raise NewtonsimError(f"spares: no places were reserved with the key {key!r}")
        self.names = tuple(chosen.names[k] for k in at_root)
        self._bodies = [chosen.index[:, roots == chosen.index[0, k]] for k in at_root]
        self._root = chosen.index[:, at_root]
        model.bodies_may_be_absent = True

    def _made_of_spares(self, roots: np.ndarray) -> np.ndarray:
        """Tell whether all shapes of the trees with these roots may become others."""
        spare = np.array(list(self.model.shape_spare), bool)
        fixed: np.ndarray = self.model.shape_body.numpy()[~spare] if len(spare) else np.zeros(0, int)
        return ~np.isin(roots, roots_of_bodies(self.model)[fixed[fixed >= 0]])

    @property
    def filled(self) -> np.ndarray:
        """Which places are filled, bool (worlds, places)."""
        return self.model.body_present.numpy()[self._root] != 0

    def fill(self, content: Any, worlds: npt.ArrayLike | None = None, place: str | None = None) -> View:
        """Put a tree into a place.

        Args:
            content: A builder with one tree, or a model finalized from it, which saves time. Its joints must
                be those of the template, with any frames, limits and drives; each link has at most as many
                shapes as in the template. Its pose is that of the builder, in the model's coordinates.
            worlds: Indices of worlds or a mask; None for all.
            place: Label of the place; None for the first one that is empty in all of these worlds.

        Returns:
            A view of the contents of the place, in these worlds.

        Raises:
            ModelError: No place is empty, the content does not fit, or it has a shape that is not possible;
                then nothing is changed.
            NewtonsimError: There is no such place, or there are no worlds.
        """
        model, numbers = self.model, self._worlds(worlds)
        source = content if isinstance(content, Model) else content.finalize(model.device)
        number = self._number(place, numbers)
        places = TreeRows(model, self._bodies[number][numbers])
        rows = TreeRows(source, np.arange(source.body_count)[None])
        shapes = self._match(source, rows, places, self.names[number])
        forms = _forms(source, rows, model)
        self._check_friction(source, places)
        self._check_references(source)
        copy_numbers(source, rows, model, places, shapes)
        _write_forms(model, forms, places, shapes)
        self._write_state(source, rows, places)
        write_rows(model.body_present, places.index["body"], 1)
        self._follow(places, numbers)
        return View(self.sim, f"{self.names[number]}*", numbers)

    def clear(self, place: str, worlds: npt.ArrayLike | None = None) -> None:
        """Empty a place.

        Args:
            place: Label of the place.
            worlds: As for `fill`.

        Raises:
            NewtonsimError: There is no such place, or there are no worlds.
        """
        numbers = self._worlds(worlds)
        bodies = self._bodies[self.names.index(self._known(place))][numbers]
        write_rows(self.model.body_present, bodies, 0)
        chosen = self._mask_of(numbers)
        follow(self.model, "body_present", mask=chosen)
        self.sim.solver.wake(chosen)

    def _worlds(self, worlds: npt.ArrayLike | None) -> np.ndarray:
        """Return the indices of worlds."""
        numbers = choose_worlds(self.model.world_count, worlds)
        if not len(numbers):
            raise NewtonsimError("worlds: expected at least one, the mask has none")
        return numbers

    def _known(self, place: str) -> str:
        if place not in self.names:
            raise NewtonsimError(f"spares: there is no place {place!r}; there are {', '.join(self.names)}")
        return place

    def _number(self, place: str | None, worlds: np.ndarray) -> int:
        """Return the index of a place, or of the first empty one."""
        used = self.filled[worlds]
        if place is not None:
            number = self.names.index(self._known(place))
            if used[:, number].any():
                world = int(worlds[np.argmax(used[:, number])])
                raise ModelError(f"spares: place {place!r} is filled in world {world}; clear it first")
            return number
        empty = np.flatnonzero(~used.any(axis=0))
        if not len(empty):
            counts = f"{used.sum(axis=1).max()} of {len(self.names)}"
            raise ModelError(
                f"spares: no place {self.key!r} is empty in all of these worlds, {counts} are filled; "
                "reserve more"
            )
        return int(empty[0])

    def _match(self, source: Model, rows: TreeRows, places: TreeRows, name: str) -> np.ndarray:
        """Return which shape of a place each shape of a content becomes."""
        kinds = ("particle", "constraint", "tendon", "muscle")
        extra = [f"{kind}s" for kind in kinds if getattr(source, f"{kind}_count")]
        extra += ["shapes that belong to no body"] * (len(rows.link) < source.shape_count)
        if (
            extra
            or rows.layout != places.layout
            or len(rows.index["body"][0]) != len(places.index["body"][0])
        ):
            raise ModelError(
                f"spares: the content does not fit place {name!r}, whose joints have (type, linear axes, "
                f"angular axes, parent) {places.layout}; those of the content have {rows.layout}"
                + (f", and it has {extra[0]}" if extra else "")
            )
        found = []
        for link in range(len(rows.index["body"][0])):
            room, wanted = np.flatnonzero(places.link == link), int((rows.link == link).sum())
            if wanted > len(room):
                key = source.body_key[link]
                raise ModelError(
                    f"spares: '{key}' has {wanted} shapes, and place {name!r} has room for {len(room)}"
                )
            found += room[:wanted].tolist()
        order = np.argsort(rows.link, kind="stable")
        matched = np.zeros(len(order), int)
        matched[order] = found
        return matched

    def _check_friction(self, source: Model, places: TreeRows) -> None:
        for key in ("mu_torsion", "mu_rolling"):
            values = getattr(source, f"shape_{key}")
            if values.size and values.numpy().any():
                check_changeable(self.model, FIELDS[f"shapes.{key}"], places.index["shape"])

    def _check_references(self, source: Model) -> None:
        """Refuse parameters of limits and contacts that solvers only read if some were set from the start."""
        alone = ("joint_limit_solref", "joint_friction_solref")
        for names in (*((name,) for name in alone), ("shape_solref", "shape_priority", "shape_condim")):
            given = [name for name in names if _any(source, name)]
            known = any(_any(self.model, name) for name in names)
            if names[0].startswith("shape"):
                known = known or bool(self.model.contact_pair_count)
            if given and not known:
                raise ModelError(
                    f"spares: the content has {given[0]}, but nothing in the model had any of "
                    f"{', '.join(names)} when the solver was created; give it to a template"
                )

    def _write_state(self, source: Model, rows: TreeRows, places: TreeRows) -> None:
        """Write the pose, velocities and inputs of a content to a tree, and clear its forces."""
        model, state, control, solver = self.model, self.sim.state, self.sim.control, self.sim.solver
        starts = (("joint_q", state, "coord"), ("joint_qd", state, "dof"), ("joint_act", control, "axis"))
        for name, owner, per in starts:
            if places.index[per].size:
                write_rows(
                    getattr(owner, name), places.index[per], getattr(source, name).numpy()[rows.index[per][0]]
                )
        if places.index["dof"].size:
            write_rows(control.joint_f, places.index["dof"], 0.0)
            if solver.servos is not None:
                write_rows(solver.servos.mode, places.index["dof"], 0)
        found = state.clone()
        if model.joint_count:
            eval_fk(model, state.joint_q, state.joint_qd, None, found)
        for name in ("body_q", "body_qd"):
            values = getattr(found, name).numpy()
            if not places.index["joint"].size:  # nothing moves it but the velocity that it has
                values[places.index["body"]] = getattr(source, name).numpy()[rows.index["body"][0]]
            write_rows(getattr(state, name), places.index["body"], values[places.index["body"]])
        write_rows(state.body_f, places.index["body"], 0.0)

    def _follow(self, places: TreeRows, worlds: np.ndarray) -> None:
        """Update what depends on the values written."""
        model, solver = self.model, self.sim.solver
        chosen = self._mask_of(worlds)
        for attribute in ("body_mass", "body_inertia", "body_present"):
            follow(model, attribute, mask=chosen)
        solver.forget_bodies(places.index["body"].reshape(-1))
        solver.wake(chosen)

    def _mask_of(self, worlds: np.ndarray) -> wp.array:
        """Return a mask of worlds."""
        mask = np.zeros(self.model.world_count, bool)
        mask[worlds] = True
        return put(mask, dtype=bool, device=self.model.device)


def _any(model: Model, name: str) -> bool:
    """Tell whether an array of a model has a non-zero value."""
    array = getattr(model, name)
    return bool(array.size and array.numpy().any())


def _forms(source: Model, rows: TreeRows, model: Model) -> list[tuple[int, int, int]]:
    """Return for each shape of a content its kind in collisions, its own kind, and an equal shape of the
    model.

    The last one is -1 for primitives.

    Raises:
        ModelError: The model has no such mesh, or a shape is neither a mesh nor a primitive.
    """
    plan, found = collision_plan_of(model), []
    kinds = source.shape_geo.type.numpy() if source.shape_count else []
    for shape in rows.index["shape"][0].tolist():
        kind = int(kinds[shape])
        if kind in _PRIMITIVES:
            found.append((kind, kind, -1))
            continue
        like = _same_mesh(source, shape, model, plan)
        if like < 0:
            raise ModelError(
                f"spares: shape '{source.shape_key[shape]}' is a {GeoType(kind).name.lower()}; expected a "
                "sphere, box, capsule, cylinder, cone, ellipsoid, or a mesh that the model has at the same "
                "scale on a body that moves"
            )
        found.append((int(KIND_HULL), kind, like))
    return found


def _same_mesh(source: Model, shape: int, model: Model, plan: CollisionPlan) -> int:
    """A shape of the model that collides as the hull of the same mesh at the same scale, -1 for none."""
    mesh, scale = source.shape_geo_src[shape], source.shape_geo.scale.numpy()[shape]
    hulls = np.flatnonzero(plan.is_hull)
    same = np.all(model.shape_geo.scale.numpy()[hulls] == scale, axis=1)
    return next((s for s in hulls[same].tolist() if mesh is not None and model.shape_geo_src[s] is mesh), -1)


def _write_forms(
    model: Model, forms: list[tuple[int, int, int]], places: TreeRows, shapes: np.ndarray
) -> None:
    """Give the shapes of a place the forms of a content, and remove those left over."""
    plan, presence = collision_plan_of(model), presence_of(model)
    assert presence is not None
    index = places.index["shape"]
    left = np.setdiff1d(np.arange(index.shape[1]), shapes)
    nothing = int(GeoType.NONE)
    for number, (kind, own, like) in [*zip(shapes, forms), *((k, (nothing, nothing, -1)) for k in left)]:
        column = index[:, [number]]
        plan.kind[column] = kind
        write_rows(presence.solid_kind, column, kind)
        write_rows(model.shape_geo.type, column, own)
        if like >= 0:
            for array in (
                plan.shape.hull,
                plan.shape.local_lower,
                plan.shape.local_upper,
                model.shape_geo.source,
            ):
                write_rows(array, column, array.numpy()[like])
            for shape in column[:, 0].tolist():
                model.shape_geo_src[shape] = model.shape_geo_src[like]
    if plan.listed is not None and len(plan.listed):
        compilation.launch(
            presence_kernels.choose_families,
            len(plan.listed),
            reads=dict(
                first=0,
                solid_kind=presence.solid_kind,
                spare=put(plan.spare, dtype=bool, device=model.device),
                family=wp.array(family_tables()[0], dtype=int, device=model.device),
            ),
            writes=dict(listed=plan.listed),
            device=model.device,
            record_tape=False,
        )
