"""Scenes with many contacts in plain numbers, read from a newtonsim model, and as MJCF for MuJoCo.

Translated are free bodies, trees of prismatic joints on the world with position drives and couplings, all
convex shapes, planes and hulls. Cones, which other engines do not have, become hulls of `CORNERS` points
around.
"""

import math
from dataclasses import dataclass

import numpy as np

import newtonsim
from newtonsim.geometry.transforms import (
    quat_between,
    quat_multiply,
    quat_rotate,
    transform_inverse,
    transform_multiply,
)
from newtonsim.scene.enums import GeoType, JointType

CORNERS = 32
# local y of our capsules, cylinders and cones is the z axis of other engines
Z_TO_Y = quat_between((0.0, 0.0, 1.0), (0.0, 1.0, 0.0))
CONJUGATE = np.array([-1.0, -1.0, -1.0, 1.0])
IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


@dataclass
class Shape:
    """A shape in the frame of its body; `axis_z` says that its axis is local z."""

    kind: GeoType
    size: np.ndarray
    pose: np.ndarray
    friction: float
    restitution: float
    vertices: np.ndarray | None


@dataclass
class Link:
    """A body with its joint to a parent; poses xyzw."""

    parent: int
    joint: JointType
    pose: np.ndarray  # (7,) in the parent frame, or the world, at zero coordinates; of free bodies, now
    axis: np.ndarray  # (3,) in the body frame
    limits: tuple[float, float]
    coordinate: float
    drive: tuple[float, float, float] | None  # stiffness, damping, effort limit
    damping: float
    armature: float
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    shapes: list[Shape]


@dataclass
class Description:
    """A scene in plain numbers; link i is body i of the model."""

    links: list[Link]
    static: list[Shape]
    mimic: list[tuple[int, int, float, float]]  # link, other link, factor, offset
    velocities: np.ndarray  # (bodies, 6) angular and linear
    gravity: np.ndarray


_READ = (
    *("joint_type", "joint_parent", "joint_child", "joint_q_start", "joint_qd_start", "joint_axis_start"),
    *("joint_X_p", "joint_X_c", "joint_q", "shape_body", "shape_transform"),
    *("body_q", "body_qd", "body_mass", "body_com", "body_inertia"),
)


def describe(model: newtonsim.Model) -> Description:
    """Read a model with one world."""
    arrays = {name: getattr(model, name).numpy() for name in _READ}
    shapes = [_shape(model, s, arrays["shape_transform"][s]) for s in range(model.shape_count)]
    owner = arrays["shape_body"]
    joint_of = {int(child): j for j, child in enumerate(arrays["joint_child"])}
    links = []
    for body in range(model.body_count):
        mine = [shape for s, shape in enumerate(shapes) if owner[s] == body]
        links.append(_link(model, arrays, body, joint_of.get(body), mine))
    child = arrays["joint_child"]
    mimic = [(int(child[a]), int(child[b]), factor, offset) for a, b, factor, offset in model.joint_mimic]
    static = [shape for s, shape in enumerate(shapes) if owner[s] < 0]
    return Description(links, static, mimic, arrays["body_qd"], np.asarray(model.gravity, float))


def _shape(model: newtonsim.Model, s: int, pose: np.ndarray) -> Shape:
    kind = GeoType(int(model.shape_geo.type.numpy()[s]))
    size = model.shape_geo.scale.numpy()[s].astype(float)
    vertices = None
    if kind == GeoType.MESH:
        vertices = model.shape_geo_src[s].vertices * size
    elif kind == GeoType.CONE:
        vertices = np.concatenate([_ring(size[0], -size[1]), [[0.0, size[1], 0.0]]])
    materials = model.shape_materials
    return Shape(
        kind,
        size,
        pose.astype(float),
        float(materials.mu.numpy()[s]),
        float(materials.restitution.numpy()[s]),
        vertices,
    )


def _ring(radius: float, height: float) -> np.ndarray:
    angle = np.arange(CORNERS) * (math.tau / CORNERS)
    return np.column_stack([radius * np.cos(angle), np.full(CORNERS, height), radius * np.sin(angle)])


def _link(model, arrays: dict, body: int, joint: int | None, shapes: list[Shape]) -> Link:
    properties = (
        float(arrays["body_mass"][body]),
        arrays["body_com"][body].astype(float),
        arrays["body_inertia"][body].astype(float),
        shapes,
    )
    kind = JointType.FIXED if joint is None else JointType(int(arrays["joint_type"][joint]))
    here = arrays["body_q"][body].astype(float)
    if joint is None or kind == JointType.FREE:
        return Link(-1, kind, here, np.zeros(3), (0.0, 0.0), 0.0, None, 0.0, 0.0, *properties)
    X_p, X_c = arrays["joint_X_p"][joint].astype(float), arrays["joint_X_c"][joint].astype(float)
    pose = transform_multiply(X_p, transform_inverse(X_c))
    parent = int(arrays["joint_parent"][joint])
    if kind == JointType.FIXED:
        return Link(parent, kind, pose, np.zeros(3), (0.0, 0.0), 0.0, None, 0.0, 0.0, *properties)
    if kind != JointType.PRISMATIC:
        raise ValueError(f"joint {model.joint_key[joint]}: {kind.name} is not translated")
    a, dof = int(arrays["joint_axis_start"][joint]), int(arrays["joint_qd_start"][joint])
    drive = None
    if int(model.joint_axis_mode.numpy()[a]) == newtonsim.JOINT_MODE_TARGET_POSITION:
        drive = tuple(
            float(getattr(model, name).numpy()[a])
            for name in ("joint_target_ke", "joint_target_kd", "joint_effort_limit")
        )
    return Link(
        parent,
        kind,
        pose,
        quat_rotate(X_c[3:], model.joint_axis.numpy()[a].astype(float)),
        (float(model.joint_limit_lower.numpy()[a]), float(model.joint_limit_upper.numpy()[a])),
        float(arrays["joint_q"][arrays["joint_q_start"][joint]]),
        drive,
        float(model.joint_damping.numpy()[dof]),
        float(model.joint_armature.numpy()[dof]),
        *properties,
    )


WITHOUT_AXIS = (JointType.FREE, JointType.FIXED)


def mjcf(scene: Description, dt: float, solver: str) -> str:
    """Return a scene as an MJCF document for one of MuJoCo's solvers."""
    import xml.etree.ElementTree as ET

    root = ET.Element("mujoco")
    options = {"gravity": _text(scene.gravity), "integrator": "implicitfast", "solver": solver}
    ET.SubElement(root, "option", options, timestep=repr(dt))
    ET.SubElement(root, "size", memory="1G")
    assets = ET.SubElement(root, "asset")
    world = ET.SubElement(root, "worldbody")
    for shape in scene.static:
        _add_geom(world, assets, shape)
    nodes, actuators, equality = {-1: world}, ET.SubElement(root, "actuator"), ET.SubElement(root, "equality")
    for i, link in enumerate(scene.links):
        node = nodes[i] = ET.SubElement(
            nodes[link.parent], "body", name=f"b{i}", pos=_text(link.pose[:3]), quat=_wxyz(link.pose[3:])
        )
        if link.joint == JointType.FREE:
            ET.SubElement(node, "freejoint", name=f"j{i}")
        elif link.joint != JointType.FIXED:
            attributes = {
                "name": f"j{i}",
                "type": "slide",
                "axis": _text(link.axis),
                "damping": repr(link.damping),
                "armature": repr(link.armature),
            }
            if all(math.isfinite(x) and abs(x) < 1.0e5 for x in link.limits):
                attributes |= {"limited": "true", "range": _text(link.limits)}
            ET.SubElement(node, "joint", attributes)
        if link.drive is not None:
            stiffness, damping, effort = link.drive
            attributes = {"joint": f"j{i}", "kp": repr(stiffness), "kv": repr(damping)}
            if math.isfinite(effort):
                attributes |= {"forcelimited": "true", "forcerange": _text((-effort, effort))}
            ET.SubElement(actuators, "position", attributes)
        I = link.inertia
        full = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        ET.SubElement(node, "inertial", pos=_text(link.com), mass=repr(link.mass), fullinertia=_text(full))
        for shape in link.shapes:
            _add_geom(node, assets, shape)
    for a, b, factor, offset in scene.mimic:
        poly = _text((offset, factor, 0.0, 0.0, 0.0))
        ET.SubElement(equality, "joint", joint1=f"j{a}", joint2=f"j{b}", polycoef=poly)
    return ET.tostring(root, encoding="unicode")


def _add_geom(node, assets, shape: Shape) -> None:
    """Append one geom; its mass does not count, as bodies have <inertial>."""
    import xml.etree.ElementTree as ET

    kind, size = shape.kind, shape.size
    rotation = shape.pose[3:]
    attributes = {}
    if kind in (GeoType.CAPSULE, GeoType.CYLINDER, GeoType.PLANE):
        rotation = quat_multiply(rotation, Z_TO_Y)
    if kind == GeoType.PLANE:
        attributes = {"type": "plane", "size": "0 0 1"}
    elif shape.vertices is not None:
        name = f"mesh{len(assets)}"
        ET.SubElement(assets, "mesh", name=name, vertex=_text(shape.vertices.ravel()))
        attributes = {"type": "mesh", "mesh": name}
    else:
        names = {GeoType.SPHERE: 1, GeoType.BOX: 3, GeoType.CAPSULE: 2, GeoType.CYLINDER: 2}
        count = names.get(kind, 3)
        attributes = {"type": kind.name.lower(), "size": _text(size[:count])}
    attributes |= {"pos": _text(shape.pose[:3]), "quat": _wxyz(rotation)}
    ET.SubElement(node, "geom", attributes, friction=f"{shape.friction!r} 0 0", condim="3")


def _text(values) -> str:
    return " ".join(repr(float(x)) for x in values)


def _wxyz(q: np.ndarray) -> str:
    return _text((q[3], q[0], q[1], q[2]))


def inertial_frame(link: Link) -> np.ndarray:
    """Return centre of mass and principal axes (7,) of a link in its own frame."""
    from scipy.spatial.transform import Rotation

    if link.mass <= 0.0 or not np.any(link.inertia - np.diag(np.diag(link.inertia))):
        return np.concatenate([link.com, IDENTITY[3:]])
    _, axes = np.linalg.eigh(link.inertia)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return np.concatenate([link.com, Rotation.from_matrix(axes).as_quat()])
