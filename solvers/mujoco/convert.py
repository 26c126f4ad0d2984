"""Conversion of a Model to MuJoCo's model and data, and where its elements are in them."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.dynamics.tendon_paths import tendon_worlds
from newtonsim.errors import ModelError, NewtonsimError, did_you_mean
from newtonsim.kernels.mujoco.state import MujocoView
from newtonsim.scene.allocation import put
from newtonsim.scene.model import MEDIUM, Model
from newtonsim.solvers.gravity_shares import Shares, gravity_shares
from newtonsim.solvers.mujoco.actuators import ActuatorWriter
from newtonsim.solvers.mujoco.constraints import ConstraintWriter
from newtonsim.solvers.mujoco.filters import ContactBits, find_filters
from newtonsim.solvers.mujoco.links import carried_by_links
from newtonsim.solvers.mujoco.options import ElementArgs, MujocoOptions
from newtonsim.solvers.mujoco.shapes import GeomWriter, SurfaceOptions
from newtonsim.solvers.mujoco.source import HostModel, Selection, select
from newtonsim.solvers.mujoco.spec import BodyWriter, DriveOptions, Names
from newtonsim.solvers.mujoco.tendons import TendonWriter

if TYPE_CHECKING:
    import mujoco

_ELEMENTS = ("particle", "spring", "tri", "edge", "tet", "muscle")
_AXIS_LENGTH, _AXIS_RADIUS = 1.0, 0.01
_AT_COM = 1.0e-5
"""Distance [m] up to which points are the same in single precision."""


@dataclass
class Conversion:
    """A model as MuJoCo sees it.

    Attributes:
        model: The model.
        selection: Which elements are in which of MuJoCo's worlds.
        spec: The description that was compiled.
        mj_model: MuJoCo's model, of one of its worlds.
        view: Where elements are in MuJoCo's arrays, on the model's device.
        shape_geom: Geom of each shape, -1 for none, int (shape_count,).
        shape_row: World of MuJoCo of each shape, -1 for all, int (shape_count,).
    """

    model: Model
    selection: Selection
    spec: mujoco.MjSpec
    mj_model: mujoco.MjModel
    view: MujocoView = field(repr=False)
    shape_geom: np.ndarray
    shape_row: np.ndarray

    @property
    def rows(self) -> int:
        """Number of worlds of MuJoCo."""
        return self.selection.rows


_of_things: dict[int, Conversion] = {}
_of_models: weakref.WeakValueDictionary[int, Conversion] = weakref.WeakValueDictionary()
"""By MuJoCo's model; it belongs to its conversion, which lives as long as a solver or data made of it."""


def remember(conversion: Conversion, *things: object) -> None:
    """Let `conversion_of` find the conversion of data of MuJoCo, or of data and models of mujoco_warp."""
    for thing in things:
        _of_things[id(thing)] = conversion
        weakref.finalize(thing, _of_things.pop, id(thing), None)


def conversion_of(model: Model, thing: object) -> Conversion:
    """Return the conversion that made a model or data of MuJoCo or mujoco_warp.

    Raises:
        ModelError: It was not made from this model.
    """
    found = _of_things.get(id(thing)) or _of_models.get(id(thing))
    found = found or _of_models.get(id(getattr(thing, "model", None)))
    if found is None or found.model is not model:
        raise ModelError(
            f"{type(thing).__name__}: it was not created from this model by MuJoCoSolver.convert_to_mjc"
        )
    return found


def convert(model: Model, options: MujocoOptions) -> Conversion:
    """Convert a model.

    Raises:
        ModelError: The model holds what MuJoCo cannot do; the message names it.
    """
    import mujoco

    for kind in _ELEMENTS:
        count = getattr(model, f"{kind}_count")
        if count:
            raise ModelError(
                f"MuJoCoSolver does not move elements of kind '{kind}', but the model has {count}"
            )
    host = HostModel(model)
    element_args = _in_all_worlds(model, options.element_args or {})
    chosen = select(host, options.separate_envs_to_worlds)
    spec = mujoco.MjSpec()
    _set_options(spec, model, options)
    names = Names()
    drives = DriveOptions(
        options.default_actuator_args or {},
        1.0 if options.default_actuator_gear is None else options.default_actuator_gear,
        _known_gears(host, options.actuator_gears or {}),
        _known_axes(model, options.actuated_axes),
    )
    passive = (options.default_joint_damping, options.joint_limit_threshold)
    relieved = options.gravcomp or {}
    carried = {link: end for link, end in carried_by_links(host).items() if link not in relieved}
    trees = BodyWriter(host, chosen, spec, names, *passive, drives, carried)
    trees.write()
    _relieve(trees, host, chosen, relieved)
    kept = element_args.get("geom", ())
    geoms = _write_shapes(host, chosen, spec, names, trees, options, kept)
    constraints = ConstraintWriter(host, chosen, spec, names, trees)
    constraints.write()
    tendons = TendonWriter(host, chosen, spec, names, trees)
    tendons.write()
    actuators = ActuatorWriter(host, chosen, spec, names, trees, tendons)
    actuators.write()
    _complete(host, trees, tendons, geoms, element_args)
    if options.add_axes:
        _add_axes(spec, names)
    try:
        mj_model = spec.compile()
    except ValueError as error:
        raise ModelError(f"MuJoCo does not accept the model: {error}") from error
    view = _view(model, chosen, trees, constraints, mj_model)
    _place_tendons(view, tendons, model)
    _place_actuators(view, chosen, actuators, model)
    conversion = Conversion(model, chosen, spec, mj_model, view, *_shape_places(model, chosen, geoms))
    _of_models[id(mj_model)] = conversion
    return conversion


def _relieve(trees: BodyWriter, host: HostModel, chosen: Selection, shares: Shares) -> None:
    """Relieve bodies of a share of their weight.

    Raises:
        ModelError: There is no such body, or the force would not act at its centre of mass.
    """
    for body in shares:
        if body not in range(host.model.body_count):
            raise ModelError(f"gravcomp: the model has {host.model.body_count} bodies, got {body!r}")
    share, point = gravity_shares(host.model, shares)
    for body in chosen.bodies[share[chosen.bodies] != 0.0].tolist():
        if np.abs(point[body] - host.body_com[body]).max() > _AT_COM:
            raise ModelError(
                f"{host.label('body', body)}: in MuJoCo, gravcomp acts at the centre of mass; it should act "
                f"at {point[body].tolist()}, as of bodies that were merged"
            )
        trees.bodies[body].gravcomp = share[body]


def _in_all_worlds(model: Model, given: ElementArgs) -> ElementArgs:
    """Further attributes of all elements, see `MujocoOptions.element_args`.

    Where worlds are equal, those of the first world's elements are those of every world.

    Raises:
        ModelError: There is no such kind of element, or no such element.
    """
    counts = {"joint": model.joint_dof_count, "tendon": model.tendon_count, "geom": model.shape_count}
    sizes = {"joint": np.diff(model.world_dof_start), "geom": np.diff(model.world_shape_start)}
    if model.tendon_count:
        sizes["tendon"] = np.bincount(tendon_worlds(model))
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for kind, arguments in given.items():
        if kind not in counts:
            raise ModelError(f"element_args: expected one of {list(counts)}, got {kind!r}")
        of_world = sizes.get(kind, ())
        alike = model.world_count > 1 and len(set(map(int, of_world))) == 1
        for index, attributes in arguments.items():
            if index not in range(counts[kind]):
                raise ModelError(f"element_args: the model has {counts[kind]} of {kind!r}, got {index!r}")
            copies = range(index, counts[kind], int(of_world[0]) if alike else counts[kind])
            found.setdefault(kind, {}).update(dict.fromkeys(copies, attributes))
    return found


def _complete(
    host: HostModel, trees: BodyWriter, tendons: TendonWriter, geoms: GeomWriter, given: ElementArgs
) -> None:
    """Set further attributes of the elements that were written.

    Raises:
        ModelError: MjSpec has no such attribute.
    """
    start = host.model.joint_qd_start.numpy()
    joints = {
        int(start[joint]) + k: element for joint, of in trees.joints.items() for k, element in enumerate(of)
    }
    elements = {"joint": joints, "tendon": tendons.tendons, "geom": geoms.geoms}
    for kind, arguments in given.items():
        for index in arguments.keys() & elements[kind].keys():
            for name, value in arguments[index].items():
                if not hasattr(elements[kind][index], name):
                    raise ModelError(f"element_args: a {kind} of MjSpec has no attribute {name!r}")
                setattr(elements[kind][index], name, value)


def _known_gears(host: HostModel, gears: Mapping[str, float]) -> Mapping[str, float]:
    for name in gears:
        if name not in host.joint_key:
            raise ModelError(
                f"actuator_gears: there is no joint {name!r}{did_you_mean(name, host.joint_key)}"
            )
    return gears


def _known_axes(model: Model, axes: Collection[int] | None) -> frozenset[int] | None:
    if axes is None:
        return None
    for axis in axes:
        if axis not in range(model.joint_axis_count):
            raise ModelError(f"actuated_axes: the model has {model.joint_axis_count} axes, got {axis!r}")
    return frozenset(axes)


def _number(name: str, value: int | str, prefix: str, kinds: type) -> int:
    """Number of a choice of MuJoCo's, given by number or name."""
    choices = {one.removeprefix(prefix).lower(): int(number) for one, number in kinds.__members__.items()}
    number = choices.get(value.lower()) if isinstance(value, str) else value
    if isinstance(number, bool) or number not in choices.values():
        raise NewtonsimError(f"{name}: expected one of {sorted(choices)}, got {value!r}")
    return int(number)


def _set_options(spec: mujoco.MjSpec, model: Model, options: MujocoOptions) -> None:
    import mujoco

    compiler, option = spec.compiler, spec.option
    compiler.degree, compiler.inertiafromgeom = False, mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    option.gravity, option.timestep = np.atleast_2d(model.gravity)[0], options.timestep
    for name in MEDIUM:
        setattr(option, name, model.solver_hint.get(name, getattr(option, name)))
    option.iterations, option.ls_iterations = options.iterations, options.ls_iterations
    option.tolerance, option.ls_tolerance = options.tolerance, options.ls_tolerance
    option.solver = _number("solver", options.solver, "mjSOL_", mujoco.mjtSolver)
    option.integrator = _number("integrator", options.integrator, "mjINT_", mujoco.mjtIntegrator)
    option.cone = _number("cone", options.cone, "mjCONE_", mujoco.mjtCone)
    option.impratio, option.disableflags = options.impratio, options.disableflags
    jacobian = mujoco.mjtJacobian
    kinds = {None: jacobian.mjJAC_AUTO, True: jacobian.mjJAC_SPARSE, False: jacobian.mjJAC_DENSE}
    option.jacobian = kinds[options.is_sparse]


def _write_shapes(
    host: HostModel,
    chosen: Selection,
    spec: mujoco.MjSpec,
    names: Names,
    trees: BodyWriter,
    options: MujocoOptions,
    kept: Collection[int],
) -> GeomWriter:
    import mujoco

    bits = ContactBits(host, chosen, options.register_collision_groups)
    surface = SurfaceOptions(
        tuple(options.geom_friction),
        options.geom_condim,
        tuple(options.geom_solref),
        tuple(options.geom_solimp),
        options.skip_visual_only_geoms,
        kept,
    )
    geoms = GeomWriter(host, chosen, spec, names, trees.bodies, bits, surface)
    geoms.write()
    own = _write_own_pairs(host, spec, geoms)
    if not options.register_collision_groups or host.model.contact_rules is None:
        return geoms
    meeting = [shape for shape, geom in geoms.geoms.items() if geom.contype or geom.conaffinity]
    filters = find_filters(host, meeting, bits, trees.carried)
    for first, second in filters.excluded:
        spec.add_exclude(bodyname1=trees.bodies[first].name, bodyname2=trees.bodies[second].name)
    for first, second in filters.pairs:
        if (first, second) not in own:
            _add_pair(spec, geoms.geoms[first], geoms.geoms[second])
    if filters.free_parents:
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)
    return geoms


def _add_pair(spec: mujoco.MjSpec, first, second) -> Any:
    """Let two geoms touch whatever filters say, with their contact parameters mixed as MuJoCo mixes them."""
    pair = spec.add_pair(geomname1=first.name, geomname2=second.name)
    deciding = [geom for geom in (first, second) if geom.priority == max(first.priority, second.priority)]
    pair.condim = max(geom.condim for geom in deciding)
    slide, spin, roll = np.max([geom.friction for geom in deciding], axis=0)
    pair.friction = [slide, slide, spin, roll, roll]
    weights = np.array([geom.solmix for geom in deciding])
    shares = weights / weights.sum() if weights.sum() > 0.0 else np.full(len(deciding), 1.0 / len(deciding))
    refs = np.array([geom.solref for geom in deciding])
    pair.solref = shares @ refs if (refs[:, 0] > 0.0).all() else refs.min(axis=0)
    pair.solimp = shares @ np.array([geom.solimp for geom in deciding])
    pair.margin = first.margin + second.margin
    return pair


def _write_own_pairs(host: HostModel, spec: mujoco.MjSpec, geoms: GeomWriter) -> set[tuple[int, int]]:
    """Write the pairs of shapes that have contact parameters of their own and may touch; returns them."""
    written = set()
    for number, ends in enumerate(host.contact_pair_shapes.tolist()):
        first, second = sorted(ends)
        meet = all(s in geoms.geoms and geoms.geoms[s].contype | geoms.geoms[s].conaffinity for s in ends)
        if not meet or (first, second) in written or not _may_touch(host, first, second):
            continue
        written.add((first, second))
        pair = _add_pair(spec, geoms.geoms[first], geoms.geoms[second])
        slide, spin, roll = host.contact_pair_friction[number]
        pair.condim = 6 if roll > 0.0 else 4 if spin > 0.0 else 3 if slide > 0.0 else 1
        pair.friction = [slide, slide, spin, roll, roll]
        if host.contact_pair_solref[number].any():
            pair.solref, pair.solimp = host.contact_pair_solref[number], host.contact_pair_solimp[number]
    return written


def _may_touch(host: HostModel, first: int, second: int) -> bool:
    """Whether groups, filters and joints let two shapes touch."""
    rules = host.model.contact_rules
    groups = {int(rules.group[shape]) for shape in (first, second)}
    apart = len(groups - {-1}) > 1 or rules.rigid[first] == rules.rigid[second]
    return not apart and first * host.model.shape_count + second not in rules.filter_keys


def _add_axes(spec: mujoco.MjSpec, names: Names) -> None:
    import mujoco

    for letter, direction in zip("xyz", np.eye(3)):
        spec.worldbody.add_site(
            name=names.of("site", f"axis_{letter}"),
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            fromto=[0.0, 0.0, 0.0, *(_AXIS_LENGTH * direction)],
            size=[_AXIS_RADIUS, 0.0, 0.0],
            rgba=[*direction, 1.0],
        )


# -- where things are ----------------------------------------------------------------------------------------


def _view(
    model: Model,
    chosen: Selection,
    trees: BodyWriter,
    constraints: ConstraintWriter,
    mj_model: mujoco.MjModel,
) -> MujocoView:
    def everywhere(kind: str, of_first: dict[int, int], count: int) -> np.ndarray:
        """Numbers of all elements of a kind, from those of the first world."""
        result = np.full(count, -1, np.int32)
        members = chosen.members[kind]
        if members.size:
            result[members] = [of_first.get(element, -1) for element in members[0].tolist()]
        return result

    def rows(kind: str, count: int) -> np.ndarray:
        result = np.full(count, -1, np.int32)
        result[chosen.members[kind]] = np.arange(chosen.rows)[:, None]
        return result

    ids = {joint: elements[0].id for joint, elements in trees.joints.items() if elements}
    equalities = {index: [one.id for one in found] for index, found in constraints.equalities.items()}
    bodies, joints, count = model.body_count, model.joint_count, model.constraint_count
    view = MujocoView()
    view.joint_row = put(rows("joint", joints), dtype=int, device=model.device)
    view.joint_coord = put(
        everywhere("joint", {j: int(mj_model.jnt_qposadr[i]) for j, i in ids.items()}, joints),
        dtype=int,
        device=model.device,
    )
    view.joint_dof = put(
        everywhere("joint", {j: int(mj_model.jnt_dofadr[i]) for j, i in ids.items()}, joints),
        dtype=int,
        device=model.device,
    )
    view.axis_ctrl = put(
        everywhere("axis", {a: one.id for a, one in trees.actuators.items()}, model.joint_axis_count),
        dtype=int,
        device=model.device,
    )
    view.body_row = put(rows("body", bodies), dtype=int, device=model.device)
    view.body_id = put(
        everywhere(
            "body",
            {b: one.id for b, one in trees.bodies.items() if b >= 0 and b not in trees.carried},
            bodies,
        ),
        dtype=int,
        device=model.device,
    )
    view.body_part_of = put(_carriers(chosen, trees, bodies), dtype=int, device=model.device)
    view.body_mocap = put(
        everywhere("body", {b: int(mj_model.body_mocapid[trees.bodies[b].id]) for b in trees.mocap}, bodies),
        dtype=int,
        device=model.device,
    )
    view.constraint_row = put(rows("constraint", count), dtype=int, device=model.device)
    view.constraint_id = put(
        everywhere("constraint", {c: found[0] for c, found in equalities.items()}, count),
        dtype=int,
        device=model.device,
    )
    view.constraint_kept = put(
        everywhere("constraint", {c: found[1] for c, found in equalities.items() if len(found) > 1}, count),
        dtype=int,
        device=model.device,
    )
    view.origin = put(chosen.origin.astype(np.float32), dtype=wp.transform, device=model.device)
    return view


def _carriers(chosen: Selection, trees: BodyWriter, count: int) -> np.ndarray:
    """The body of the model that each body is one with in MuJoCo, -1 for bodies of their own (count,)."""
    found = np.full(count, -1, np.int32)
    place = {body: i for i, body in enumerate(chosen.bodies.tolist())}
    for link, end in trees.carried.items():
        if link in place:
            found[chosen.members["body"][:, place[link]]] = chosen.members["body"][:, place[end]]
    return found


def _place_tendons(view: MujocoView, tendons: TendonWriter, model: Model) -> None:
    """Write where the tendons of all worlds have their controls; each world has them in the same order."""
    row = tendons.row
    order = np.argsort(row, kind="stable")
    ctrl = np.full(len(row), -1)
    of_first = np.array([tendons.actuators[t].id for t in sorted(tendons.actuators)], np.int64)
    if len(row):
        ctrl[order] = np.tile(of_first, len(row) // len(of_first))
    view.tendon_row = put(row, dtype=int, device=model.device)
    view.tendon_ctrl = put(ctrl, dtype=int, device=model.device)


def _place_actuators(view: MujocoView, chosen: Selection, actuators: ActuatorWriter, model: Model) -> None:
    """Write where the actuators of all worlds have their controls."""
    members = chosen.members["actuator"]
    row, ctrl = np.zeros(model.actuator_count, np.int32), np.zeros(model.actuator_count, np.int32)
    row[members] = np.arange(chosen.rows)[:, None]
    ctrl[members] = [actuators.actuators[number].id for number in members[0].tolist()]
    view.actuator_row = put(row, dtype=int, device=model.device)
    view.actuator_ctrl = put(ctrl, dtype=int, device=model.device)


def _shape_places(model: Model, chosen: Selection, geoms: GeomWriter) -> tuple[np.ndarray, np.ndarray]:
    """Geom and row of each shape."""
    geom, row = np.full(model.shape_count, -1, np.int32), np.full(model.shape_count, -1, np.int32)
    members = chosen.members["shape"]
    row[members] = np.arange(chosen.rows)[:, None]
    geom[members] = [geoms.geoms[s].id if s in geoms.geoms else -1 for s in members[0].tolist()]
    for shape in chosen.shared.tolist():
        geom[shape] = geoms.geoms[shape].id if shape in geoms.geoms else -1
    return geom, row
