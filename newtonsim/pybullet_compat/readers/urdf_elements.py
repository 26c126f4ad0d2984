"""Elements of URDF, read with PyBullet's tolerance and its extensions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from newtonsim.errors import UnsupportedElementWarning
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.description import Geometry, Link, Surface, Visual
from newtonsim.pybullet_compat.descriptions.frames import quat_of_rpy
from newtonsim.pybullet_compat.descriptions.kinds import Geom, JointKind, LoadFlag
from newtonsim.pybullet_compat.descriptions.mass import collision_margin, inertia_of_file, inertia_of_shapes
from newtonsim.pybullet_compat.readers.geometry import cylinder_hull, find_file, mesh_geometry
from newtonsim.pybullet_compat.readers.mesh_files import MeshFile, read_mesh_file
from newtonsim.pybullet_compat.readers.options import LoadOptions
from newtonsim.pybullet_compat.readers.xml_text import number, numbers, vector3

WHITE = (1.0, 1.0, 1.0, 1.0)
_JOINT_KINDS = {
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.REVOLUTE,
    "prismatic": JointKind.PRISMATIC,
    "spherical": JointKind.SPHERICAL,
    "planar": JointKind.PLANAR,
    "fixed": JointKind.FIXED,
    "floating": JointKind.FIXED,
}
_INERTIA = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


@dataclass(slots=True)
class Material:
    """Colour and texture of visuals.

    Attributes:
        rgba: Diffuse colour, None where it is left open.
        specular: Specular colour.
        texture: Image file, "" for none.
    """

    rgba: tuple[float, ...] | None = None
    specular: tuple[float, float, float] = (1.0, 1.0, 1.0)
    texture: str = ""


@dataclass(slots=True)
class Reader:
    """What the elements of one file need to be understood.

    Attributes:
        document: The file.
        options: How it is loaded.
        materials: Materials by name.
        inertia: Inertia matrices (3, 3) of the file by name of the link.
        inertia_factors: <inertia_scaling> by name of the link.
        stand_ins: The look of the collision shapes of links without visuals, by name of the link.
        warnings: Where warnings are collected: (category, message).
    """

    document: str
    options: LoadOptions
    materials: dict[str, Material] = field(default_factory=dict)
    inertia: dict[str, np.ndarray] = field(default_factory=dict)
    inertia_factors: dict[str, float] = field(default_factory=dict)
    stand_ins: dict[str, list[Visual]] = field(default_factory=dict)
    warnings: list[tuple[type[Warning], str]] = field(default_factory=list)

    def has(self, flag: LoadFlag) -> bool:
        """Whether a flag is set."""
        return bool(self.options.flags & flag)

    def warn(self, node: Node, message: str) -> None:
        """Note that an element is not taken as it stands."""
        self.warnings.append(
            (UnsupportedElementWarning, f"{node.path}:{node.line}: <{node.label}> {message}")
        )

    # -- frames and inertia ----------------------------------------------------------------------------------

    def pose(self, node: Node | None) -> Pose:
        """Read the <origin> below an element; what is not three numbers counts as zero."""
        origin = node.find("origin") if node is not None else None
        if origin is None:
            return Pose.identity()
        xyz, rpy = vector3(origin.text_of("xyz")), vector3(origin.text_of("rpy"))
        for name, value in (("xyz", xyz), ("rpy", rpy)):
            if value is None and origin.text_of(name):
                self.warn(origin, f"{name}={origin.text_of(name)!r} has fewer than three numbers")
        p = np.zeros(3) if xyz is None else xyz * self.options.scale
        return Pose(p, quat_of_rpy(rpy if rpy is not None else np.zeros(3)))

    def inertial(self, node: Node | None, link: Link) -> np.ndarray:
        """Read mass and inertial frame into a link; returns the inertia matrix (3, 3) of the file."""
        if node is None:
            link.mass = 0.0 if link.name == "world" else 1.0
            if link.mass:
                self.warnings.append(
                    (UserWarning, f"{self.document}: link {link.name!r} has no <inertial>, its mass is 1")
                )
            return np.eye(3) * link.mass
        mass, inertia = node.find("mass"), node.find("inertia")
        if mass is None or mass.text_of("value") is None:
            raise node.error("<mass value=...> is missing")
        if inertia is None:
            raise node.error("<inertia> is missing")
        link.mass = number(mass.text_of("value"))
        link.inertial_pose = self.pose(node)
        given = [inertia.text_of(name) for name in _INERTIA]
        if None in given and None in (given[0], given[3], given[5]):
            raise inertia.error("attributes ixx, iyy and izz are needed")
        xx, xy, xz, yy, yz, zz = (number(text) for text in given)
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    # -- shapes ----------------------------------------------------------------------------------------------

    def geometry(self, node: Node, *, visual: bool) -> Geometry:
        """Read the <geometry> of a <visual> or <collision>."""
        holder = node.find("geometry")
        if holder is None or not holder.children:
            raise node.error("<geometry> with a shape is missing")
        shape, pose, scale = holder.children[0], self.pose(node), self.options.scale
        if shape.tag == "sphere":
            return Geometry(Geom.SPHERE, pose, radius=scale * self._needed(shape, "radius"))
        if shape.tag == "box":
            size = self._vector(shape, "size") * (0.5 * scale)
            return Geometry(Geom.BOX, pose, half_extents=tuple(size.tolist()))
        if shape.tag in ("cylinder", "capsule"):
            radius, length = scale * self._needed(shape, "radius"), scale * self._needed(shape, "length")
            if shape.tag == "capsule":
                return Geometry(Geom.CAPSULE, pose, radius=radius, height=length)
            if visual or self.has(LoadFlag.USE_IMPLICIT_CYLINDER):
                return Geometry(Geom.CYLINDER, pose, radius=radius, height=length)
            return cylinder_hull(radius, length, pose)
        if shape.tag == "plane":
            normal = self._vector(shape, "normal")
            length = float(np.linalg.norm(normal))
            normal = normal / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
            return Geometry(Geom.PLANE, pose, normal=tuple(normal.tolist()))
        if shape.tag == "mesh":
            return self._mesh(node, shape, pose, visual)
        raise shape.error("this shape is unknown")

    def _needed(self, node: Node, name: str) -> float:
        text = node.text_of(name)
        if text is None:
            raise node.error(f"attribute '{name}' is missing")
        return number(text)

    def _vector(self, node: Node, name: str) -> np.ndarray:
        if not node.text_of(name):
            raise node.error(f"attribute '{name}' is missing")
        values = vector3(node.text_of(name))
        if values is None:
            self.warn(node, f"{name}={node.text_of(name)!r} has fewer than three numbers, taken as zero")
            return np.zeros(3)
        return values

    def _mesh(self, node: Node, shape: Node, pose: Pose, visual: bool) -> Geometry:
        name = shape.text_of("filename")
        if not name:
            raise shape.error("attribute 'filename' is missing")
        path = find_file(name, self.document)
        if path is None:
            raise shape.error(f"file {name!r} is not found")
        scale = self._mesh_scale(shape)
        if not visual:
            return mesh_geometry(
                path,
                scale,
                pose,
                concave=(node.text_of("concave") or "") in ("yes", "1"),
                use_cache=self.options.use_cache,
            )
        file = read_mesh_file(path, self.options.use_cache)
        return Geometry(
            Geom.MESH, pose, scale=tuple(scale.tolist()), file=path, meshes=list(file.meshes(scale))
        )

    def _mesh_scale(self, shape: Node) -> np.ndarray:
        text = shape.text_of("scale")
        if text is None:
            return np.full(3, self.options.scale)
        values = numbers(text)
        if len(values) < 3:
            self.warn(shape, f"scale={text!r} has fewer than three numbers, the first counts for all")
            values = [values[0] if values else 0.0] * 3
        return np.array(values[:3]) * self.options.scale

    def visual(self, node: Node) -> Visual:
        """Read a <visual>."""
        geometry = self.geometry(node, visual=True)
        material = self.material(node.find("material"))
        visual = Visual(geometry, material.rgba or WHITE, material.specular, texture_file=material.texture)
        if geometry.kind == Geom.MESH:
            file = read_mesh_file(geometry.file, self.options.use_cache)
            visual.uvs = [part.uvs for part in file.parts]
            if self.has(LoadFlag.USE_MATERIAL_COLORS_FROM_MTL) and geometry.file.lower().endswith(".obj"):
                visual.rgba = self._mtl_color(file)
            if not visual.texture_file:
                visual.texture_file = next(
                    (part.material.texture for part in file.parts if part.material and part.material.texture),
                    "",
                )
        return visual

    def _mtl_color(self, file: MeshFile) -> tuple[float, ...]:
        """Colour of the last material of the first group of a mesh file, black without one."""
        first = file.parts[0].group
        found = [part.material for part in file.parts if part.material and part.group == first]
        material = found[-1] if found else None
        color = material.rgba if material else (0.0, 0.0, 0.0, 1.0)
        return color if self.has(LoadFlag.USE_MATERIAL_TRANSPARANCY_FROM_MTL) else (*color[:3], 1.0)

    def read_materials(self, root: Node) -> None:
        """Collect the named materials of a whole file; of equal names the last one counts for all."""
        for node in root.walk():
            if node.tag == "material" and node.text_of("name") and node.children:
                self.materials[node.text_of("name")] = self.own_material(node)

    def material(self, node: Node | None) -> Material:
        """Material of a visual: by its name, or by what it says itself."""
        if node is None:
            return Material()
        name = node.text_of("name") or ""
        return self.materials[name] if name in self.materials else self.own_material(node)

    def leaves_color(self, node: Node) -> bool:
        """Whether a <visual> says nothing about its colour."""
        own = node.find("material")
        return own is None or (own.find("color") is None and own.text_of("name") not in self.materials)

    def own_material(self, node: Node) -> Material:
        """Read what stands inside a <material>."""
        color, texture, specular = node.find("color"), node.find("texture"), node.find("specular")
        material = Material()
        if color is not None and color.text_of("rgba"):
            rgba = numbers(color.text_of("rgba"))
            if len(rgba) < 4:
                self.warn(node, f"rgba={color.text_of('rgba')!r} has fewer than four numbers, taken as zero")
            material.rgba = tuple(rgba[:4]) if len(rgba) >= 4 else (0.0, 0.0, 0.0, 0.0)
        if specular is not None and vector3(specular.text_of("rgb")) is not None:
            material.specular = tuple(vector3(specular.text_of("rgb")).tolist())
        if texture is not None and texture.text_of("filename"):
            material.texture = find_file(texture.text_of("filename"), self.document) or ""
        return material

    # -- links and joints ------------------------------------------------------------------------------------

    def link(self, node: Node) -> Link:
        """Read a <link>, but for its inertia; see `finish`."""
        name = node.text_of("name")
        if not name:
            raise node.error("a link has no name")
        link = Link(name)
        self.inertia[name] = self.inertial(node.find("inertial"), link)
        shapes = node.findall("collision")
        collisions = [self.geometry(part, visual=False) for part in shapes]
        visuals = [self.visual(part) for part in node.findall("visual")]
        link.collisions = [] if self.has(LoadFlag.IGNORE_COLLISION_SHAPES) else collisions
        link.visuals = [] if self.has(LoadFlag.IGNORE_VISUAL_SHAPES) else visuals
        if not link.visuals and link.collisions:
            self.stand_ins[name] = [Visual(self.geometry(part, visual=True)) for part in shapes]
        for part in shapes:
            if part.text_of("group") is not None:
                link.group = int(number(part.text_of("group")))
            if part.text_of("mask") is not None:
                link.mask = int(number(part.text_of("mask")))
        link.surface, self.inertia_factors[name] = self.surface(node.find("contact"))
        return link

    def finish(self, link: Link, merged: bool) -> None:
        """Give a link its inertia, its margin and, if it has no visuals, a look.

        Args:
            link: The link, with everything that belongs to it.
            merged: Whether others were merged into it; its frame keeps its axes then.
        """
        link.visuals = link.visuals or self.stand_ins.get(link.name, [])
        link.surface.collision_margin = collision_margin(link.collisions, link.inertial_pose)
        if self.has(LoadFlag.USE_INERTIA_FROM_FILE):
            link.inertia, frame = inertia_of_file(self.inertia[link.name], link.inertial_pose)
            link.inertial_pose = link.inertial_pose if merged else frame
            if merged and link.mass == 0.0:
                link.inertia = np.zeros(3)
        else:
            link.inertia = inertia_of_shapes(link.mass, link.collisions, link.inertial_pose)
        link.inertia = link.inertia * self.inertia_factors[link.name]

    def surface(self, node: Node | None) -> tuple[Surface, float]:
        """Read the <contact> extension; returns also the factor of the inertia."""
        surface, factor = Surface(), 1.0
        if node is None:
            return surface, factor
        names = {
            "lateral_friction": "lateral_friction",
            "rolling_friction": "rolling_friction",
            "spinning_friction": "spinning_friction",
            "restitution": "restitution",
            "stiffness": "contact_stiffness",
            "damping": "contact_damping",
        }
        for part in node.children:
            if part.tag in names and part.text_of("value") is not None:
                setattr(surface, names[part.tag], number(part.text_of("value")))
            elif part.tag == "friction_anchor":
                surface.friction_anchor = True
            elif part.tag == "inertia_scaling" and part.text_of("value") is not None:
                factor = number(part.text_of("value"))
        return surface, factor

    def joint(self, node: Node) -> tuple[Link, str, str]:
        """Read a <joint> into a record that has only the joint's part; returns it with both link names."""
        name, kind = node.text_of("name"), node.text_of("type")
        if not name:
            raise node.error("a joint has no name")
        if kind not in _JOINT_KINDS:
            raise node.error(f"joint type {kind!r} is unknown")
        if kind == "floating":
            self.warn(node, "a floating joint inside a robot is taken as fixed")
        ends = [
            end.text_of("link") if (end := node.find(tag)) is not None else None
            for tag in ("parent", "child")
        ]
        if not all(ends):
            raise node.error("<parent link=...> or <child link=...> is missing")
        joint = Link(joint_name=name, joint_type=int(_JOINT_KINDS[kind]), joint_pose=self.pose(node))
        axis = self._axis(node, kind)
        joint.axis_length = float(np.linalg.norm(axis)) or 1.0
        joint.axis = axis / joint.axis_length
        self._limits(node, kind, joint)
        dynamics = node.find("dynamics")
        if dynamics is not None:
            joint.damping = number(dynamics.text_of("damping"))
            joint.friction = number(dynamics.text_of("friction"))
        return joint, *ends

    def _axis(self, node: Node, kind: str) -> np.ndarray:
        if kind in ("fixed", "floating"):
            return np.zeros(3)
        element = node.find("axis")
        if element is None or not element.text_of("xyz"):
            return np.array([1.0, 0.0, 0.0])
        axis = vector3(element.text_of("xyz"))
        if axis is None:
            raise element.error(f"xyz={element.text_of('xyz')!r} has fewer than three numbers")
        return axis

    def _limits(self, node: Node, kind: str, joint: Link) -> None:
        limit = node.find("limit")
        if limit is None:
            if kind in ("revolute", "prismatic"):
                raise node.error(f"a {kind} joint needs <limit>")
            return
        scale = self.options.scale if kind == "prismatic" else 1.0
        joint.limits = (
            scale * number(limit.text_of("lower"), 0.0),
            scale * number(limit.text_of("upper"), -1.0),
        )
        joint.stops = kind != "continuous"
        joint.max_force = number(limit.text_of("effort"))
        joint.max_velocity = number(limit.text_of("velocity"))
