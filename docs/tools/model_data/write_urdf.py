"""URDF and SDF texts from measured facts, with shapes of our own in the place of the meshes."""

from __future__ import annotations

from collections.abc import Callable
from xml.sax.saxutils import quoteattr

import numpy as np
from measure import Frame, LinkFacts, ModelFacts, Shape

JOINTS = {0: "revolute", 1: "prismatic", 2: "spherical", 3: "planar", 4: "fixed"}
NO_LIMITS = (0.0, -1.0)
Replace = Callable[[Shape, bool], Shape]


def number(value: float) -> str:
    """Return a number with the digits that are not rounding errors."""
    rounded = round(float(value), 9)
    single = float(f"{rounded:.6g}")
    return f"{single if abs(single - rounded) < 2e-8 * abs(rounded) + 1e-12 else rounded:.9g}"


def numbers(values: object) -> str:
    """Return numbers separated by spaces, zeros without a sign."""
    return " ".join(number(value) if abs(value) > 1e-10 else "0" for value in np.ravel(values))


def _snap(angles: np.ndarray) -> np.ndarray:
    """Return angles where multiples of 15 degrees are exact."""
    steps = np.round(angles / (np.pi / 12)) * (np.pi / 12)
    return np.where(np.abs(steps - angles) < 2e-7, steps, angles)


def _rpy(pose: Frame) -> str:
    with np.errstate(all="ignore"):
        return numbers(_snap(pose.rotation.as_euler("xyz")))


def _origin(pose: Frame) -> str:
    return f'<origin xyz="{numbers(pose.position)}" rpy="{_rpy(pose)}"/>'


def _is_identity(pose: Frame) -> bool:
    return np.abs(pose.position).max() < 1e-9 and pose.rotation.magnitude() < 1e-9


def _geometry(shape: Shape) -> str:
    size = shape.size
    if shape.kind == "box":
        return f'<box size="{numbers(size[:3])}"/>'
    if shape.kind == "sphere":
        return f'<sphere radius="{number(size[0])}"/>'
    if shape.kind in ("cylinder", "capsule"):
        return f'<{shape.kind} radius="{number(size[1])}" length="{number(size[0])}"/>'
    if shape.kind == "plane":
        return f'<plane normal="{numbers(size[:3])}"/>'
    scale = "" if np.allclose(size[:3], 1) else f' scale="{numbers(size[:3])}"'
    return f'<mesh filename="{shape.mesh}"{scale}/>'


def _shape(tag: str, shape: Shape, colours: dict[tuple, str], concave: bool) -> list[str]:
    head = f'<{tag} concave="yes">' if concave and tag == "collision" else f"<{tag}>"
    lines = [f"    {head}"]
    if not _is_identity(shape.pose):
        lines.append(f"      {_origin(shape.pose)}")
    lines.append(f"      <geometry>{_geometry(shape)}</geometry>")
    if tag == "visual" and shape.rgba != (1.0, 1.0, 1.0, 1.0):
        name = colours.setdefault(shape.rgba, f"colour{len(colours) + 1}")
        lines.append(f'      <material name="{name}"><color rgba="{numbers(shape.rgba)}"/></material>')
    return [*lines, f"    </{tag}>"]


def _contact(link: LinkFacts, attributes: bool) -> list[str]:
    values = {
        "lateral_friction": (link.friction, 0.5),
        "rolling_friction": (link.rolling, 0.0),
        "spinning_friction": (link.spinning, 0.0),
        "restitution": (link.restitution, 0.0),
        "stiffness": (link.stiffness, -1.0),
        "damping": (link.damping, -1.0),
        "inertia_scaling": (link.inertia_scaling, 1.0),
    }
    form = '<{0} value="{1}"/>' if attributes else "<{0}>{1}</{0}>"
    said = [form.format(key, number(v)) for key, (v, default) in values.items() if abs(v - default) > 1e-9]
    return [f"    <contact>{''.join(said)}</contact>"] if said else []


def _joint(link: LinkFacts, parent: str) -> list[str]:
    kind = JOINTS[link.joint_type]
    limited = link.limits != NO_LIMITS
    kind = "continuous" if kind == "revolute" and not limited else kind
    lines = [
        f'  <joint name={quoteattr(link.joint)} type="{kind}">',
        f"    <parent link={quoteattr(parent)}/><child link={quoteattr(link.name)}/>",
    ]
    if not _is_identity(link.pose):
        lines.append(f"    {_origin(link.pose)}")
    if kind not in ("fixed", "spherical"):
        lines.append(f'    <axis xyz="{numbers(link.axis)}"/>')
    if limited or link.effort or link.velocity:
        bounds = f'lower="{number(link.limits[0])}" upper="{number(link.limits[1])}" ' if limited else ""
        lines.append(
            f'    <limit {bounds}effort="{number(link.effort)}" velocity="{number(link.velocity)}"/>'
        )
    if link.joint_damping or link.joint_friction:
        lines.append(
            f'    <dynamics damping="{number(link.joint_damping)}" friction="{number(link.joint_friction)}"/>'
        )
    return [*lines, "  </joint>"]


def _moments(link: LinkFacts) -> list[tuple[str, str]]:
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    values = link.inertia[np.triu_indices(3)]
    small = 1e-7 * np.abs(values).max()
    return [
        (name, f"{value:.7g}" if abs(value) > small else "0")
        for name, value in zip(names, values, strict=True)
    ]


def _inertial(link: LinkFacts, pose: Frame, indent: str) -> list[str]:
    origin = [f"{indent}  {_origin(pose)}"] if not _is_identity(pose) else []
    inertia = " ".join(f'{name}="{value}"' for name, value in _moments(link))
    return [
        f"{indent}<inertial>",
        *origin,
        f'{indent}  <mass value="{number(link.mass)}"/>',
        f"{indent}  <inertia {inertia}/>",
        f"{indent}</inertial>",
    ]


def urdf(model: ModelFacts, replace: Replace, header: str, concave: bool = False) -> str:
    """Return the URDF text of a model.

    Args:
        model: Its facts.
        replace: Gives the shape of ours for a measured one and whether it collides.
        header: Comment at the top.
        concave: Whether meshes collide as surfaces.
    """
    lines = ['<?xml version="1.0"?>', f"<!-- {header} -->", f"<robot name={quoteattr(model.name)}>"]
    colours: dict[tuple, str] = {}
    for link in model.links:
        lines.append(f"  <link name={quoteattr(link.name)}>")
        lines += _contact(link, True)
        lines += _inertial(link, link.inertial, "    ")
        for shape in link.visuals:
            lines += _shape("visual", replace(shape, False), colours, concave)
        for shape in link.collisions:
            lines += _shape("collision", replace(shape, True), colours, concave and shape.kind == "mesh")
        lines.append("  </link>")
    for link in model.links[1:]:
        lines += _joint(link, model.links[link.parent + 1].name)
    return "\n".join([*lines, "</robot>", ""])


def _sdf_shape(tag: str, index: int, shape: Shape) -> list[str]:
    size = shape.size
    if shape.kind == "box":
        body = f"<box><size>{numbers(size[:3])}</size></box>"
    elif shape.kind == "sphere":
        body = f"<sphere><radius>{number(size[0])}</radius></sphere>"
    elif shape.kind in ("cylinder", "capsule"):
        inner = f"<radius>{number(size[1])}</radius><length>{number(size[0])}</length>"
        body = f"<{shape.kind}>{inner}</{shape.kind}>"
    elif shape.kind == "plane":
        body = f"<plane><normal>{numbers(size[:3])}</normal><size>100 100</size></plane>"
    else:
        body = f"<mesh><scale>{numbers(size[:3])}</scale><uri>{shape.mesh}</uri></mesh>"
    lines = [f'      <{tag} name="{tag}{index}">']
    if not _is_identity(shape.pose):
        lines.append(f"        <pose>{numbers(shape.pose.position)} {_rpy(shape.pose)}</pose>")
    lines.append(f"        <geometry>{body}</geometry>")
    if tag == "visual":
        colour = numbers(shape.rgba)
        lines.append(f"        <material><ambient>{colour}</ambient><diffuse>{colour}</diffuse></material>")
    return [*lines, f"      </{tag}>"]


def sdf(models: list[ModelFacts], replace: Replace, header: str) -> str:
    """Return the SDF text of several models; arguments as of `urdf`."""
    lines = ['<?xml version="1.0"?>', f"<!-- {header} -->", '<sdf version="1.6">', '  <world name="default">']
    for model in models:
        lines.append(f"    <model name={quoteattr(model.name)}>")
        root = model.links[0].world
        if not _is_identity(root):
            lines.append(f"    <pose>{numbers(root.position)} {_rpy(root)}</pose>")
        static = model.links[0].mass == 0.0 and len(model.links) == 1
        if static:
            lines.append("    <static>1</static>")
        for link in model.links:
            place = root.inverse() @ link.world
            pose = f"{numbers(place.position)} {_rpy(place)}"
            lines += [f"    <link name={quoteattr(link.name)}>", f"      <pose>{pose}</pose>"]
            lines += [f"  {line}" for line in _contact(link, False)]
            inertial = f"{numbers(link.inertial.position)} {_rpy(link.inertial)}"
            inertia = "".join(f"<{name}>{value}</{name}>" for name, value in _moments(link))
            lines.append(
                f"      <inertial><pose>{inertial}</pose><mass>{number(link.mass)}</mass>"
                f"<inertia>{inertia}</inertia></inertial>"
            )
            for k, shape in enumerate(link.visuals):
                lines += _sdf_shape("visual", k, replace(shape, False))
            for k, shape in enumerate(link.collisions):
                lines += _sdf_shape("collision", k, replace(shape, True))
            lines.append("    </link>")
        for link in model.links[1:]:
            lines += _sdf_joint(link, model.links[link.parent + 1].name)
        lines.append("    </model>")
    return "\n".join([*lines, "  </world>", "</sdf>", ""])


def _sdf_joint(link: LinkFacts, parent: str) -> list[str]:
    kind = JOINTS[link.joint_type]
    limited = link.limits != NO_LIMITS
    lines = [
        f'    <joint name={quoteattr(link.joint)} type="{kind}">',
        f"      <parent>{parent}</parent><child>{link.name}</child>",
    ]
    if kind != "fixed":
        limit = f"<effort>{number(link.effort)}</effort><velocity>{number(link.velocity)}</velocity>"
        if limited:
            limit = f"<lower>{number(link.limits[0])}</lower><upper>{number(link.limits[1])}</upper>{limit}"
        lines.append(f"      <axis><xyz>{numbers(link.axis)}</xyz><limit>{limit}</limit>")
        lines.append(
            f"        <dynamics><damping>{number(link.joint_damping)}</damping>"
            f"<friction>{number(link.joint_friction)}</friction></dynamics></axis>"
        )
    return [*lines, "    </joint>"]
