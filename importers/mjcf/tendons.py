"""MJCF tendons and the equalities between them: read into records, and built.

A tendon that nothing pulls and nothing holds is a mere quantity to read, and is left out.

Reference: https://mujoco.readthedocs.io/en/stable/XMLreference.html#tendon
"""

import numpy as np

from newtonsim.builder import ModelBuilder, TendonWrap
from newtonsim.errors import ImportFileError
from newtonsim.geometry.transforms import quat_rotate
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.actuators import Drive
from newtonsim.importers.mjcf.document import Document
from newtonsim.importers.mjcf.geoms import solver_parameters
from newtonsim.importers.mjcf.muscles import set_forces
from newtonsim.importers.mjcf.plan import BuildState, MjcfOptions
from newtonsim.importers.mjcf.records import (
    LEFT_TO_MUJOCO,
    Geom,
    Scene,
    SolverParameters,
    Tendon,
    TendonEquality,
    Wrap,
)
from newtonsim.scene.enums import JointType

_ACTIVE = ("stiffness", "damping", "frictionloss", "armature")
_SCALAR = ("hinge", "slide")


def parse_tendons(document: Document, scene: Scene, report: ImportReport) -> None:
    """Read all <tendon> sections into `scene.tendons`; what is not modelled is reported."""
    used = {node.text_of("tendon") for s in document.sections("actuator") for node in s.children}
    equalities = [node for s in document.sections("equality") for node in s.findall("tendon")]
    used |= {node.text_of(end) for node in equalities for end in ("tendon1", "tendon2")}
    for section in document.sections("tendon"):
        for node in section.children:
            if node.tag not in ("spatial", "fixed"):
                report.unsupported(node)
                continue
            # both kinds share one default, under the section's name
            general = Node("tendon", node.attrib, node.path, node.line)
            resolved = document.defaults.resolve(general, None)[0].attrib
            node = Node(node.tag, resolved, node.path, node.line, node.children)
            acts = any(node.floats(name, default=()).any() for name in _ACTIVE)
            acts = acts or any(node.bounds("range") or ())
            acts = acts or (bool(node.text_of("name")) and node.text_of("name") in used)
            tendon = Tendon(node.text_of("name") or f"tendon_{len(scene.tendons)}", node)
            try:
                kept = _read_path(tendon, scene, report)
            except ImportFileError as fault:
                if acts:
                    raise
                document.faults.meet(fault, "the tendon, which does nothing, is left out")
                continue
            if not kept:
                report.ignored(node, "a tendon along elements that ignore_names and ignore_classes leave out")
                continue
            if not acts:
                report.ignored(node, "a tendon without stiffness, damping and limits")
                continue
            _read_options(tendon, document, report)
            scene.tendons[tendon.name] = tendon
    for node in scene.joint_tendons:
        tendon = Tendon(node.required("name"), node)
        _read_path(tendon, scene, report)
        _read_options(tendon, document, report)
        scene.tendons[tendon.name] = tendon
    for node in equalities:
        _parse_equality(node, document, scene, report)


def _read_path(tendon: Tendon, scene: Scene, report: ImportReport) -> bool:
    """Read what a tendon runs along; return False if some of it is left out on purpose.

    Raises:
        ImportFileError: It names what is not there, or is no path.
    """
    for child in tendon.node.children:
        if child.tag == "joint":
            tendon.joints.append((child.required("joint"), float(child.float("coef", 1.0) or 0.0)))
        elif child.tag == "site":
            tendon.stops.append(child.required("site"))
        elif child.tag == "pulley":
            divisor = child.float("divisor", 0.0) or 0.0
            if divisor <= 0.0:
                raise tendon.node.error(f"attribute 'divisor' must be positive, got {divisor:g}")
            tendon.stops.append(divisor)
        elif child.tag == "geom":
            tendon.stops.append(Wrap(child.required("geom"), child.text_of("sidesite")))
        else:
            report.unsupported(child, f"<{child.tag}> in a tendon")
    if _leads_nowhere(tendon, scene):
        return False
    _check_path(tendon, scene)
    return True


def _read_options(tendon: Tendon, document: Document, report: ImportReport) -> None:
    """Read what a tendon does."""
    node, options = tendon.node, tendon.options
    for ours, name in (("stiffness", "stiffness"), ("damping", "damping"), ("friction", "frictionloss")):
        values = node.floats(name, default=(0.0,))
        options[ours] = float(values[0]) if len(values) else 0.0
        if options[ours] < 0.0:
            raise node.error(f"attribute '{name}' must not be negative, got {options[ours]:g}")
        if values[1:].any():
            report.unsupported(node, f"{name} that is not linear", unless=LEFT_TO_MUJOCO)
            tendon.mujoco[name] = [*map(float, values), 0.0, 0.0][:3]
    if (limit := node.float("springyield", 0.0)) != 0.0:
        report.unsupported(node, "springyield", unless=LEFT_TO_MUJOCO)
        tendon.mujoco["springyield"] = limit
    options["armature"] = node.float("armature", 0.0) or 0.0
    if options["armature"] < 0.0:
        raise node.error(f"attribute 'armature' must not be negative, got {options['armature']:g}")
    if options["armature"] and any(isinstance(stop, Wrap) for stop in tendon.stops):
        raise node.error("attribute 'armature' is not available where a tendon wraps around a geom")
    rest = node.floats("springlength", 2, (-1.0,), at_least=1)
    if rest[0] > rest[-1]:
        raise node.error(f"attribute 'springlength' is reversed: {node.text_of('springlength')!r}")
    if rest[0] != -1.0 or rest[-1] != -1.0:  # these stand for the length in the reference pose
        options["spring_length"] = (float(rest[0]), float(rest[-1]))
    if document.is_limited(node, "limited", "range"):
        node.required("range")
        lower, upper = node.bounds("range") or (0.0, 0.0)
        if lower > upper:
            raise node.error(f"attribute 'range' is reversed: {node.text_of('range')!r}")
        options["limit_lower"], options["limit_upper"] = lower, upper
        given = solver_parameters(node, "solreflimit", "solimplimit", document.faults)
        limit = given or SolverParameters()
        options["limit_solref"], options["limit_solimp"] = limit.solref, limit.solimp
        options["limit_margin"] = node.float("margin", 0.0)
    if document.is_limited(node, "actuatorfrclimited", "actuatorfrcrange"):
        low, high = node.bounds("actuatorfrcrange") or (0.0, 0.0)
        if low > high:
            raise node.error(
                f"attribute 'actuatorfrcrange' is reversed: {node.text_of('actuatorfrcrange')!r}"
            )
        if low != -high:
            report.approximated(node, "an actuatorfrcrange that is not symmetric; the larger number counts")
        tendon.effort_limit = max(abs(low), abs(high))
    for name in ("solreffriction", "solimpfriction"):
        if node.floats(name) is not None:
            report.unsupported(node, f"{name}; dry friction of tendons is rigid", unless=LEFT_TO_MUJOCO)
    if options["friction"] != 0.0:
        dry = solver_parameters(node, "solreffriction", "solimpfriction", document.faults)
        dry = dry or SolverParameters()
        tendon.mujoco |= {"solref_friction": dry.solref, "solimp_friction": dry.solimp}


def _leads_nowhere(tendon: Tendon, scene: Scene) -> bool:
    names = {name for name, _ in tendon.joints} | {stop for stop in tendon.stops if isinstance(stop, str)}
    names |= {stop.geom for stop in tendon.stops if isinstance(stop, Wrap)}
    return bool(names & scene.ignored_names)


def _check_path(tendon: Tendon, scene: Scene) -> None:
    """Raise if a tendon names what is not there."""
    joints = {joint.name: joint for body in scene.bodies for joint in body.joints}
    sites = {site.name for body in scene.bodies for site in body.sites}
    for name, _ in tendon.joints:
        if name not in joints:
            raise tendon.node.error(f"the joint {name!r} is not defined")
        if joints[name].kind not in _SCALAR:
            raise tendon.node.error(f"the joint {name!r} is neither a hinge nor a slide")
    pieces = [0]
    geoms = {geom.name: geom for body in scene.bodies for geom in body.geoms if geom.name}
    for place, stop in enumerate(tendon.stops):
        if isinstance(stop, Wrap):
            around = tendon.stops[max(place - 1, 0) : place] + tendon.stops[place + 1 : place + 2]
            _check_wrap(stop, around, tendon, geoms, sites)
            continue
        if isinstance(stop, str) and stop not in sites:
            raise tendon.node.error(f"the site {stop!r} is not defined")
        if isinstance(stop, str):
            pieces[-1] += 1
        else:
            pieces.append(0)
    if tendon.node.tag == "fixed" and not tendon.joints:
        raise tendon.node.error("a fixed tendon needs a <joint>")
    if tendon.node.tag == "spatial" and min(n for n in pieces if n or len(pieces) == 1) < 2:
        raise tendon.node.error("a spatial tendon needs two sites, and so does each part after a pulley")


def _check_wrap(stop: Wrap, around: list, tendon: Tendon, geoms: dict[str, Geom], sites: set[str]) -> None:
    if stop.geom not in geoms:
        raise tendon.node.error(f"the geom {stop.geom!r} is not defined")
    if geoms[stop.geom].kind not in ("sphere", "cylinder"):
        raise tendon.node.error(f"a tendon wraps around spheres and cylinders, and {stop.geom!r} is neither")
    if stop.side is not None and stop.side not in sites:
        raise tendon.node.error(f"the site {stop.side!r} is not defined")
    if len(around) < 2 or not all(isinstance(one, str) for one in around):
        raise tendon.node.error(f"the geom {stop.geom!r} must be between two sites of the tendon")


def _parse_equality(node: Node, document: Document, scene: Scene, report: ImportReport) -> None:
    general = Node("equality", node.attrib, node.path, node.line)
    resolved = document.defaults.resolve(general, None)[0].attrib
    node = Node(node.tag, resolved, node.path, node.line)
    ends = (node.required("tendon1"), node.text_of("tendon2"))
    named = {child.text_of("name") for s in document.sections("tendon") for child in s.children}
    for end in ends:
        if end is not None and end not in named:
            raise node.error(f"the tendon {end!r} is not defined")
        if end is not None and end not in scene.tendons:
            return  # along what was left out on purpose
    coefficients = np.zeros(5)
    given = node.floats("polycoef", 5, (0.0, 1.0, 0.0, 0.0, 0.0), at_least=1)
    coefficients[: len(given)] = given
    active = bool(node.bool("active", True)) and scene.equalities_enabled
    solver = solver_parameters(node, "solref", "solimp", document.faults) or SolverParameters()
    scene.tendon_equalities.append(TendonEquality(node, ends, coefficients, active, solver))


# -- building ------------------------------------------------------------------------------------------------


def add_tendons(
    scene: Scene,
    state: BuildState,
    options: MjcfOptions,
    drives: dict[str, Drive],
    builder: ModelBuilder,
    report: ImportReport,
) -> None:
    """Add tendons and their equalities to the builder that holds the file's bodies and joints.

    Args:
        scene: The records.
        state: Where bodies and joints are.
        options: Arguments of the importer.
        drives: What the actuators of each tendon add up to, by its name.
        builder: Receives them.
        report: Receives their numbers.
    """
    starts: dict[str, float] = {}
    for name, tendon in scene.tendons.items():
        arguments = {"key": name, **tendon.options, **_drive(drives.get(name))}
        if tendon.joints:
            axes, offset = _axes(tendon, state, options)
            starts[name] = offset
            if "spring_length" not in arguments:
                arguments["spring_length"] = _spring_length(tendon, state, options)
            report.tendons[name] = builder.add_tendon_fixed(axes, offset, **arguments)
        else:
            path = _path(tendon, scene, state)
            moved = any(place.record.spring_ref != place.record.ref for place in state.joints)
            if "spring_length" not in arguments and arguments["stiffness"] > 0.0 and moved:
                report.approximated(
                    tendon.node, "has its initial length as rest length, not that at springref"
                )
            for option in ("limit_lower", "limit_upper", "limit_margin", "spring_length"):
                if option in arguments:
                    arguments[option] = np.multiply(arguments[option], options.scale).tolist()
            if "limit_solimp" in arguments:
                arguments["limit_solimp"] = (
                    SolverParameters(solimp=arguments["limit_solimp"]).scaled(options.scale).solimp
                )
            given = arguments.pop("spring_length", None)
            index = report.tendons[name] = builder.add_tendon_spatial(path, **arguments)
            starts[name] = builder.tendon_spring_lower[index]  # the length at the start, unless told
            if given is not None:
                low, high = np.broadcast_to(given, 2)
                builder.tendon_spring_lower[index] = float(low)
                builder.tendon_spring_upper[index] = float(high)
    whole = {node.text_of("tendon") for node, _ in scene.whole_actuators}
    for name, tendon in scene.tendons.items():
        if name in whole and tendon.effort_limit < np.inf:  # drives are bounded themselves
            report.unsupported(
                tendon.node, "actuatorfrcrange of actuators of the model", unless=LEFT_TO_MUJOCO
            )
            bounds = tendon.node.bounds("actuatorfrcrange") or (0.0, 0.0)
            tendon.mujoco |= {"actfrclimited": True, "actfrcrange": [*bounds]}
        report.leave_to_mujoco("tendon", report.tendons[name], tendon.mujoco)
    muscles = {report.tendons[n]: one.muscle for n, one in drives.items() if one.muscle is not None}
    if any(kind in (JointType.BALL, JointType.FREE) for kind in builder.joint_type):
        for name, one in drives.items():
            if one.muscle is not None and one.muscle.force < 0.0:
                what = "what ball and free joints add to the force of a muscle that is given by scale"
                report.unsupported(scene.tendons[name].node, what)
    set_forces(builder, muscles)
    for equality in scene.tendon_equalities:
        first, second = equality.tendons
        builder.add_tendon_equality(
            report.tendons[first],
            -1 if second is None else report.tendons[second],
            equality.coefficients.tolist(),
            (starts[first], 0.0 if second is None else starts[second]),
            equality.solver.solref,
            equality.solver.solimp,
            equality.active,
            equality.node.text_of("name"),
        )
        if options.scale != 1.0:
            report.approximated(equality.node, "the equality of tendons is not scaled")


def _drive(drive: Drive | None) -> dict:
    if drive is None:
        return {}
    gains = {"target_ke": drive.ke, "target_kd": drive.kd, "effort_limit": drive.efforts[1]}
    muscle = None if drive.muscle is None else drive.muscle.unit
    return {"mode": drive.mode, "action": drive.act, "muscle": muscle, **gains}


def _spring_length(tendon: Tendon, state: BuildState, options: MjcfOptions) -> float:
    """Length where joints are at their springref, in which a fixed tendon rests unless told otherwise."""
    places = {place.record.name: place for place in state.joints}
    total = 0.0
    for name, coefficient in tendon.joints:
        joint = places[name].record
        total += coefficient * joint.spring_ref / (options.scale if joint.kind == "slide" else 1.0)
    return total


def _axes(tendon: Tendon, state: BuildState, options: MjcfOptions) -> tuple[list[tuple[int, float]], float]:
    """Joint axes with their factors, and the length where our coordinates are zero."""
    places = {place.record.name: place for place in state.joints}
    axes, offset = [], 0.0
    for name, coefficient in tendon.joints:
        place = places[name]
        size = options.scale if place.record.kind == "slide" else 1.0
        axes.append((place.axis, coefficient / size))
        offset += coefficient * place.record.ref / size
    return axes, offset


def _path(tendon: Tendon, scene: Scene, state: BuildState) -> list:
    """Points, pulleys and what the tendon wraps around."""
    sites = {site.name: (n, site.pose) for n, body in enumerate(scene.bodies) for site in body.sites}
    geoms = {geom.name: (n, geom) for n, body in enumerate(scene.bodies) for geom in body.geoms if geom.name}

    def frame(number: int, pose: Pose) -> tuple[int, Pose]:
        place = state.places[number]
        return place.index, place.pose @ pose if place.index < 0 else pose

    path = []
    for stop in tendon.stops:
        if isinstance(stop, (int, float)):
            path.append(float(stop))
        elif isinstance(stop, str):
            body, pose = frame(*sites[stop])
            path.append((body, pose.p))
        else:
            number, geom = geoms[stop.geom]
            body, pose = frame(number, geom.pose)
            axis = quat_rotate(pose.q, (0.0, 0.0, 1.0)) if geom.kind == "cylinder" else None
            side = None
            if stop.side is not None:
                own, at = frame(*sites[stop.side])
                side = (own, at.p)
            path.append(TendonWrap(body, pose.p, float(geom.size[0]), axis, side))
    return path
