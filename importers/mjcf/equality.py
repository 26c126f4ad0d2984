"""MJCF equality constraints: read into records, and built as loop joints and couplings.

Reference: https://mujoco.readthedocs.io/en/stable/XMLreference.html#equality
"""

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.document import Document
from newtonsim.importers.mjcf.geoms import solver_parameters
from newtonsim.importers.mjcf.plan import BuildState, MjcfOptions
from newtonsim.importers.mjcf.records import Equality, Scene
from newtonsim.scene.enums import JointType

_KINDS = ("connect", "weld", "joint")
_SCALAR = ("hinge", "slide")
SAME_BODY = "both ends are on one body"
"""Why an equality does nothing."""


def parse_equalities(document: Document, scene: Scene, report: ImportReport) -> None:
    """Read all <equality> sections into `scene.equalities`; what is not modelled is reported."""
    names = {
        "body": {"world", *(body.name for body in scene.bodies if body.name)},
        "site": {site.name for body in scene.bodies for site in body.sites},
        "joint": {joint.name for body in scene.bodies for joint in body.joints if joint.name},
    }
    for section in document.sections("equality"):
        for node in section.children:
            if node.tag == "tendon":
                continue  # see `tendons.parse_tendons`
            if node.tag not in _KINDS:
                report.unsupported(node, "equality constraints of this kind")
                continue
            # all kinds share one default, under the section's name
            general = Node("equality", node.attrib, node.path, node.line)
            resolved = document.defaults.resolve(general, None)[0].attrib
            node = Node(node.tag, resolved, node.path, node.line)
            equality = _parse_equality(node, names, scene.ignored_names)
            if equality is not None:
                equality.active = equality.active and scene.equalities_enabled
                equality.solver = solver_parameters(node, "solref", "solimp", document.faults)
                scene.equalities.append(equality)


def _parse_equality(node: Node, names: dict[str, set[str]], ignored: set[str]) -> Equality | None:
    """Read one constraint; None if it names what the caller leaves out."""
    kind = "joint" if node.tag == "joint" else "site" if "site1" in node.attrib else "body"
    ends = (node.required(f"{kind}1"), node.text_of(f"{kind}2"))
    if kind == "site":
        node.required("site2")
    for end in ends:
        if end is not None and end not in names[kind]:
            if end in ignored:
                return None
            raise node.error(f"the {kind} {end!r} is not defined")
    equality = Equality(node, node.tag, kind, ends, node.bool("active", True))
    equality.torque_scale = max(0.0, node.float("torquescale", 1.0))
    if node.tag == "joint":
        given = node.floats("polycoef", 5, (0.0, 1.0, 0.0, 0.0, 0.0), at_least=1)
        equality.coefficients[: len(given)] = given
    elif kind == "body":
        if node.tag == "connect":
            node.required("anchor")
        equality.anchor = node.floats("anchor", 3, (0.0, 0.0, 0.0))
        pose = node.floats("relpose", 7)
        if node.tag == "weld" and pose is not None and pose[3:].any():
            quaternion = pose[[4, 5, 6, 3]] / np.linalg.norm(pose[3:])
            equality.relative = Pose(pose[:3], quaternion)
    return equality


def add_equalities(
    scene: Scene, state: BuildState, options: MjcfOptions, builder: ModelBuilder, report: ImportReport
) -> None:
    """Add the constraints of `scene.equalities` to the builder that holds the file's bodies and joints."""
    bodies = {body.name: number for number, body in enumerate(scene.bodies) if body.name}
    bodies["world"] = 0
    for number, equality in enumerate(scene.equalities):
        common = {
            "key": equality.node.text_of("name") or f"{equality.kind}_{number}",
            "enabled": equality.active,
        }
        if equality.solver is not None:
            common |= {"solref": equality.solver.solref, "solimp": equality.solver.solimp}
        if equality.kind == "joint":
            index = _add_coupling(equality, state, options, builder, common)
        else:
            first, second = _frames(equality, scene, state, bodies)
            if first[0] == second[0]:
                report.ignored(equality.node, SAME_BODY)
                continue
            kind = JointType.BALL if equality.kind == "connect" else JointType.FIXED
            index = builder.add_loop_joint(
                kind,
                first[0],
                second[0],
                first[1].warp(),
                second[1].warp(),
                collision_filter=False,
                torque_scale=equality.torque_scale,
                **common,
            )
        report.constraints[common["key"]] = index


def _frames(
    equality: Equality, scene: Scene, state: BuildState, bodies: dict[str, int]
) -> tuple[tuple[int, Pose], tuple[int, Pose]]:
    """Body and anchor frame of both ends; those of static bodies in the frame of the builder's world."""
    if equality.ends_are == "site":
        ends = []
        for name in equality.ends:
            number, pose = next(
                (number, site.pose)
                for number, body in enumerate(scene.bodies)
                for site in body.sites
                if site.name == name
            )
            place = state.places[number]
            ends.append((place.index, place.pose @ pose if place.index < 0 else pose))
        return ends[0], ends[1]
    places = [state.places[bodies[name or "world"]] for name in equality.ends]
    first, second = (place.pose for place in places)
    at_start = first.inverse() @ second
    if equality.kind == "connect":
        inner = Pose(equality.anchor, Pose.identity().q)
        outer = at_start.inverse() @ inner
    else:
        # the anchor of a weld is in the frame of the second body, and relpose says where it is held
        outer = Pose(equality.anchor, Pose.identity().q)
        inner = at_start @ outer if equality.relative is None else equality.relative
    frames = [
        (place.index, place.pose @ frame if place.index < 0 else frame)
        for place, frame in zip(places, (inner, outer))
    ]
    return frames[0], frames[1]


def _add_coupling(
    equality: Equality,
    state: BuildState,
    options: MjcfOptions,
    builder: ModelBuilder,
    common: dict,
) -> int:
    """Add y - y0 = Σ a_k (x - x0)^k; our coordinates are zero where the file's are at their reference."""
    axes, sizes = [], []
    for name in equality.ends:
        if name is None:
            continue
        place = next(place for place in state.joints if place.record.name == name)
        if place.record.kind not in _SCALAR:
            raise equality.node.error(f"the joint {name!r} is neither a hinge nor a slide")
        first = builder.joint_axis_start[place.index]
        axes.append((place.index, place.axis - first))
        sizes.append(options.scale if place.record.kind == "slide" else 1.0)
    if equality.solver is not None:
        common["solimp"] = equality.solver.scaled(sizes[0]).solimp
    if len(axes) == 1:
        coefficients = (equality.coefficients[0] * sizes[0],)
        return builder.add_constraint_coupling(axes[0][0], -1, coefficients, axes[0][1], **common)
    if axes[0] == axes[1]:
        raise equality.node.error("a joint cannot follow itself")
    coefficients = [sizes[0] * a / sizes[1] ** k for k, a in enumerate(equality.coefficients)]
    (joint, axis), (other, other_axis) = axes
    return builder.add_constraint_coupling(joint, other, coefficients, axis, other_axis, **common)
