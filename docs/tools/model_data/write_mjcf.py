"""MJCF texts from measured facts: bodies are named links, the links before them are their joints."""

from __future__ import annotations

import mujoco
import numpy as np
from measure import REAL, Frame, LinkFacts, ModelFacts, Shape
from scipy.spatial.transform import Rotation

TYPES = {0: "hinge", 1: "slide"}
GEOMS = {0: "plane", 2: "sphere", 3: "capsule", 5: "cylinder", 6: "box"}


def _text(values: object) -> str:
    return " ".join(f"{value:.6g}" if abs(value) > 1e-7 else "0" for value in np.ravel(values))


def _pose(pose: Frame) -> str:
    text = f' pos="{_text(pose.position)}"'
    if pose.rotation.magnitude() > 1e-6:
        quaternion = pose.rotation.as_quat()
        text += f' quat="{_text(np.roll(quaternion, 1) * (1 if quaternion[3] >= 0 else -1))}"'
    return text


class Known:
    """What MuJoCo says about the same file: shapes by name of body or geom, motors. Empty where it cannot load it."""

    def __init__(self, file: str) -> None:
        try:
            self.model = mujoco.MjModel.from_xml_path(str(REAL / file))
        except ValueError:
            self.model = None

    def geoms(self, name: str) -> list[tuple[Shape, int, int]]:
        """Return the shapes of a body, or of the geom of the world with that name, and whether they collide."""
        model, found = self.model, []
        for index in range(model.ngeom if model else 0):
            geom = model.geom(index)
            body = int(model.geom_bodyid[index])
            if (name != geom.name) if body == 0 else (name != model.body(body).name):
                continue
            kind, size = GEOMS[int(geom.type[0])], geom.size
            sizes = {"sphere": (size[0],), "box": tuple(2 * size), "plane": (0.0, 0.0, 1.0)}
            dimensions = sizes.get(kind, (2 * size[1], size[0]))
            pose = Frame(geom.pos, Rotation.from_quat(np.roll(geom.quat, -1)))
            found.append((Shape(kind, dimensions, pose, rgba=tuple(geom.rgba)), int(geom.contype[0]),
                          int(geom.conaffinity[0])))
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


def _shapes(link: LinkFacts, known: Known) -> list[tuple[Shape, int, int]]:
    shapes = known.geoms(link.name)
    if shapes:
        return shapes
    fitted = []
    for shape in link.visuals:
        pose = shape.pose
        at_rest = np.abs(pose.position).max() < 1e-9 and pose.rotation.magnitude() < 1e-9
        if shape.kind == "capsule" and at_rest and len(link.visuals) == 1 and link.mass:
            # A capsule between two points: the API gives no pose, but its centre and axis show in the inertia.
            turn = {0: (0, np.pi / 2, 0), 1: (-np.pi / 2, 0, 0), 2: (0, 0, 0)}[int(np.argmin(link.inertia))]
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
    text = f'{indent}<geom{f" name={chr(34)}{name}{chr(34)}" if name else ""} type="{shape.kind}" size="{_text(size)}"'
    text += _pose(shape.pose) + f' friction="{link.friction:.6g} 0.005 0.0001"'
    if contype != 1 or conaffinity != 1:
        text += f' contype="{contype}" conaffinity="{conaffinity}"'
    if shape.rgba != (1.0, 1.0, 1.0, 1.0):
        text += f' rgba="{_text(shape.rgba)}"'
    return text + "/>"


def _joint(link: LinkFacts, body: LinkFacts, indent: str) -> str:
    place = body.world.inverse() @ link.world
    axis = place.rotation.apply(link.axis)
    text = f'{indent}<joint name="{link.joint}" type="{TYPES[link.joint_type]}" axis="{_text(axis)}"'
    text += f' pos="{_text(place.position)}"'
    if link.limits[0] <= link.limits[1]:
        text += f' limited="true" range="{_text(link.limits)}"'
    return text + "/>"


def _body(model: ModelFacts, index: int, joints: list[LinkFacts], above: Frame, known: Known, depth: int) -> list[str]:
    link, indent = model.links[index], "  " * depth
    children = [k for k in range(1, len(model.links)) if model.links[k].parent == index - 1]
    if not link.visuals and link.mass == 0.0 and len(children) >= 1 and link.name.startswith("link"):
        chain = joints if index == 0 or link.joint_type == 4 else [*joints, link]
        return [line for k in children for line in _body(model, k, chain, above, known, depth)]
    if link.joint_type != 4 and index:
        joints = [*joints, link]
    shapes = _shapes(link, known)
    name = "" if link.name.startswith("link") and link.name[4:5].isdigit() else f' name="{link.name}"'
    lines = [f"{indent}<body{name}{_pose(above.inverse() @ link.world)}>"]
    lines += [_joint(joint, link, indent + "  ") for joint in joints]
    if abs(sum(_volume(shape) for shape, *_ in shapes) * 1000 - link.mass) > 1e-3 * link.mass:
        lines.append(
            f'{indent}  <inertial pos="{_text(link.inertial.position)}" mass="{link.mass:.6g}" '
            f'diaginertia="{_text(link.inertia)}"/>'
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
