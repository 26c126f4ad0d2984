"""MJCF texts from measured facts: bodies are named links, the links before them are their joints."""

# ruff: noqa: TID253

from __future__ import annotations

import mujoco
import numpy as np
from measure import REAL, Frame, LinkFacts, ModelFacts, Shape
from scipy.spatial.transform import Rotation

TYPES = {0: "hinge", 1: "slide"}
GEOMS = {0: "plane", 2: "sphere", 3: "capsule", 5: "cylinder", 6: "box"}


def _is_automatic(name: str) -> bool:
    """Return whether PyBullet made the name up."""
    return name.startswith("link") and name[4:5].isdigit()


def _text(values: object) -> str:
    return " ".join(f"{value:.6g}" if abs(value) > 1e-7 else "0" for value in np.ravel(values))


def _pose(pose: Frame) -> str:
    text = f' pos="{_text(pose.position)}"'
    if pose.rotation.magnitude() > 1e-6:
        quaternion = pose.rotation.as_quat()
        text += f' quat="{_text(np.roll(quaternion, 1) * (1 if quaternion[3] >= 0 else -1))}"'
    return text


TWINS = {"mjcf/humanoid_symmetric.xml": "mjcf/humanoid_symmetric_no_ground.xml"}
"""A file that MuJoCo cannot load: one that it can, with the same bodies."""


class Known:
    """What MuJoCo says about a file: shapes by name, motors; nothing where it cannot load it."""

    def __init__(self, file: str) -> None:
        try:
            self.model = mujoco.MjModel.from_xml_path(str(REAL / TWINS.get(file, file)))
        except ValueError:
            self.model = None
        count = self.model.nbody if self.model else 0
        self.nameless = [k for k in range(1, count) if not self.model.body(k).name]

    def geoms(self, name: str, massive: bool) -> list[tuple[Shape, int, int]]:
        """Return the shapes of a body or geom of the world, each with contype and conaffinity."""
        model, found, nameless = self.model, [], -1
        if massive and _is_automatic(name) and self.nameless:
            nameless = self.nameless.pop(0)
        for index in range(model.ngeom if model else 0):
            geom = model.geom(index)
            body = int(model.geom_bodyid[index])
            if body != nameless and name != (model.body(body).name if body else geom.name):
                continue
            kind, size = GEOMS[int(geom.type[0])], geom.size
            sizes = {"sphere": (size[0],), "box": tuple(2 * size), "plane": (0.0, 0.0, 1.0)}
            dimensions = sizes.get(kind, (2 * size[1], size[0]))
            pose = Frame(geom.pos, Rotation.from_quat(np.roll(geom.quat, -1)))
            found.append(
                (
                    Shape(kind, dimensions, pose, rgba=tuple(geom.rgba)),
                    int(geom.contype[0]),
                    int(geom.conaffinity[0]),
                )
            )
        return found

    def motors(self) -> list[str]:
        """Return the motor elements of the model."""
        model, lines = self.model, []
        for index in range(model.nu if model else 0):
            joint = model.joint(int(model.actuator_trnid[index, 0])).name
            gear, bounds = model.actuator_gear[index, 0], model.actuator_ctrlrange[index]
            limit = f' ctrllimited="true" ctrlrange="{_text(bounds)}"' if bounds[1] > bounds[0] else ""
            lines.append(f'    <motor joint="{joint}" gear="{gear:.6g}"{limit}/>')
        return lines


def _resting(link: LinkFacts) -> list[Shape]:
    """Return the capsules between two points, or upright in the middle: the API gives no pose of them."""
    return [
        shape
        for shape in link.visuals
        if shape.kind == "capsule"
        and not shape.pose.position.any()
        and shape.pose.rotation.magnitude() < 1e-9
    ]


def _shapes(link: LinkFacts, known: Known) -> list[tuple[Shape, int, int]]:
    shapes = known.geoms(link.name, link.mass > 0.0)
    if shapes:
        return shapes
    resting = _resting(link)
    fitted = []
    for shape in link.visuals:
        pose = shape.pose
        if resting == [shape] and link.mass:
            # A capsule between two points: its centre and axis show in the inertia.
            turn = {0: (0, np.pi / 2, 0), 1: (-np.pi / 2, 0, 0), 2: (0, 0, 0)}[
                int(np.argmin(np.diag(link.inertia)))
            ]
            pose = Frame(link.inertial.position, Rotation.from_euler("xyz", turn))
        fitted.append((Shape(shape.kind, shape.size, pose, rgba=shape.rgba), 1, 1))
    return fitted


def _volume(shape: Shape) -> float:
    size = shape.size
    if shape.kind == "sphere":
        return 4 / 3 * np.pi * size[0] ** 3
    if shape.kind == "box":
        return float(np.prod(size[:3]))
    if shape.kind == "plane":
        return 0.0
    ends = 4 / 3 * np.pi * size[1] ** 3 if shape.kind == "capsule" else 0.0
    return np.pi * size[1] ** 2 * size[0] + ends


def _geom(link: LinkFacts, entry: tuple[Shape, int, int], indent: str, name: str = "") -> str:
    shape, contype, conaffinity = entry
    size = {"sphere": shape.size[:1], "box": np.array(shape.size[:3]) / 2, "plane": (40, 40, 1)}.get(
        shape.kind, (shape.size[1 % len(shape.size)], shape.size[0] / 2)
    )
    label = f' name="{name}"' if name else ""
    text = f'{indent}<geom{label} type="{shape.kind}" size="{_text(size)}"'
    if any(
        np.allclose(shape.size[:2], other.size[:2], rtol=1e-3)
        for other in _resting(link)
        if shape.kind == "capsule"
    ):
        # PyBullet takes the middle of a capsule between two points, else the origin, for the centre of mass.
        half = shape.pose.rotation.apply((0, 0, shape.size[0] / 2))
        ends = np.concatenate([shape.pose.position - half, shape.pose.position + half])
        text = text.replace(f'size="{_text(size)}"', f'size="{_text(size[:1])}" fromto="{_text(ends)}"')
    else:
        text += _pose(shape.pose)
    text += f' friction="{link.friction:.6g} 0.005 0.0001"'
    if contype != 1 or conaffinity != 1:
        text += f' contype="{contype}" conaffinity="{conaffinity}"'
    if shape.rgba != (1.0, 1.0, 1.0, 1.0):
        text += f' rgba="{_text(shape.rgba)}"'
    return text + "/>"


def _joint(link: LinkFacts, body: Frame, indent: str) -> str:
    place = body.inverse() @ link.world
    axis = place.rotation.apply(link.axis)
    text = f'{indent}<joint name="{link.joint}" type="{TYPES[link.joint_type]}" axis="{_text(axis)}"'
    text += f' pos="{_text(place.position)}"'
    if link.limits[0] <= link.limits[1]:
        text += f' limited="true" range="{_text(link.limits)}"'
    return text + "/>"


def _body(
    model: ModelFacts, index: int, joints: list[LinkFacts], above: Frame, known: Known, depth: int
) -> list[str]:
    link, indent = model.links[index], "  " * depth
    children = [k for k in range(1, len(model.links)) if model.links[k].parent == index - 1]
    if not link.visuals and link.mass == 0.0 and children and _is_automatic(link.name):
        chain = joints if index == 0 or link.joint_type == 4 else [*joints, link]
        return [line for k in children for line in _body(model, k, chain, above, known, depth)]
    if link.joint_type != 4 and index:
        joints = [*joints, link]
    shapes = _shapes(link, known)
    name = "" if _is_automatic(link.name) else f' name="{link.name}"'
    frame = link.world
    if joints and link.joint_type == 4 and index:
        # PyBullet takes the place of the first joint for that of all joints of a body.
        frame = Frame(joints[0].world.position + frame.rotation.apply(link.pose.position), frame.rotation)
    place = above.inverse() @ frame
    if index == 0:
        # PyBullet puts the centre of mass of the first body where the file says its frame is.
        place = place @ Frame(link.inertial.position, Rotation.identity())
    lines = [f"{indent}<body{name}{_pose(place)}>"]
    lines += [_joint(joint, frame, indent + "  ") for joint in joints]
    if abs(sum(_volume(shape) for shape, *_ in shapes) * 1000 - link.mass) > 1e-3 * link.mass:
        lines.append(
            f'{indent}  <inertial pos="{_text(link.inertial.position)}" mass="{link.mass:.6g}" '
            f'diaginertia="{_text(np.diag(link.inertia))}"/>'
        )
    lines += [_geom(link, entry, indent + "  ") for entry in shapes]
    for k in children:
        lines += _body(model, k, [], link.world, known, depth + 1)
    return [*lines, f"{indent}</body>"]


def mjcf(models: list[ModelFacts], file: str, header: str) -> str:
    """Return the MJCF text of the models of a file.

    Args:
        models: Their facts.
        file: The file of pybullet_data, for what MuJoCo says about it.
        header: Comment at the top.
    """
    known = Known(file)
    lines = [f"<!-- {header} -->", f'<mujoco model="{models[-1].name}">']
    lines += ['  <compiler angle="radian" coordinate="local" inertiafromgeom="auto"/>', "  <worldbody>"]
    world = Frame(np.zeros(3), Rotation.identity())
    for model in models:
        base = model.links[0]
        if len(model.links) == 1 and base.mass == 0.0:
            name = "" if base.name == "anonymous" else base.name
            lines += [_geom(base, entry, "    ", name) for entry in _shapes(base, known)]
        else:
            lines += _body(model, 0, [], world, known, 2)
    lines.append("  </worldbody>")
    if motors := known.motors():
        lines += ["  <actuator>", *motors, "  </actuator>"]
    return "\n".join([*lines, "</mujoco>", ""])
