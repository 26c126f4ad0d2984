"""Elements of URDF as PyBullet understands them, with its extensions."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from newtonsim.importers.files.faults import Forgive
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.urdf.elements import (
    GEOMETRY_TYPES,
    Origin,
    read_dynamics,
    read_inertial,
    read_joint_ends,
    read_origin,
    read_size,
)
from newtonsim.pybullet_compat.descriptions.description import Geometry, Link, Surface, Visual
from newtonsim.pybullet_compat.descriptions.frames import quat_of_rpy
from newtonsim.pybullet_compat.descriptions.kinds import Geom, JointKind, LoadFlag
from newtonsim.pybullet_compat.descriptions.mass import collision_margin, inertia_of_file, inertia_of_shapes
from newtonsim.pybullet_compat.readers.geometry import cylinder_hull, find_file, mesh_geometry
from newtonsim.pybullet_compat.readers.mesh_files import MeshFile, read_mesh_file
from newtonsim.pybullet_compat.readers.options import LoadOptions

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
_NEEDED_MOMENTS = {"ixx", "iyy", "izz"}


@dataclass(slots=True)
class Joint:
    """A joint between two links; `record` has only the joint's part.

    Attributes:
        name: Its name.
        parent: Name of the link above.
        child: Name of the link below.
        node: The element.
        record: What the API reports of it.
    """

    name: str
    parent: str
    child: str
    node: Node
    record: Link


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


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a document refers to.

    Attributes:
        name: As the document has it.
        path: Where it was found, None for nowhere.
        state: Time of its last change [ns] and size.
    """

    name: str
    path: str | None
    state: tuple[int, int]

    @classmethod
    def of(cls, name: str, document: str) -> FoundFile:
        """Find a file."""
        path = find_file(name, document)
        if path is None:
            return cls(name, None, (0, 0))
        stat = os.stat(path)
        return cls(name, path, (stat.st_mtime_ns, stat.st_size))


@dataclass(slots=True)
class Reader:
    """Context in which the elements of one file are read.

    Attributes:
        document: The file.
        options: How it is loaded.
        materials: Materials by name.
        inertia: Inertia matrices (3, 3) of the file by name of the link.
        inertia_factors: <inertia_scaling> by name of the link.
        stand_ins: The look of the collision shapes of links without visuals, by name of the link.
        faults: What was forgiven.
        files: The files that it refers to, as they were found.
    """

    document: str
    options: LoadOptions
    materials: dict[str, Material] = field(default_factory=dict)
    inertia: dict[str, np.ndarray] = field(default_factory=dict)
    inertia_factors: dict[str, float] = field(default_factory=dict)
    stand_ins: dict[str, list[Visual]] = field(default_factory=dict)
    faults: Forgive = field(default_factory=Forgive)
    files: list[FoundFile] = field(default_factory=list)

    def find(self, name: str) -> str | None:
        """Find a file that the document refers to; see `find_file`."""
        found = FoundFile.of(name, self.document)
        self.files.append(found)
        return found.path

    def has(self, flag: LoadFlag) -> bool:
        """Whether a flag is set."""
        return bool(self.options.flags & flag)

    def warn(self, node: Node, message: str) -> None:
        """Record that an element is not used as written."""
        self.faults.meet(node.error(message))

    # -- frames and inertia ----------------------------------------------------------------------------------

    def pose(self, node: Node) -> Pose:
        """Read the <origin> below an element."""
        return self._placed(read_origin(node, self.faults))

    def _placed(self, origin: Origin | None) -> Pose:
        if origin is None:
            return Pose.identity()
        return Pose(origin.xyz * self.options.scale, quat_of_rpy(origin.rpy))

    def inertial(self, node: Node, link: Link) -> np.ndarray:
        """Read mass and inertial frame of a <link>; returns the inertia matrix (3, 3) of the file."""
        part = node.find("inertial")
        if part is None:
            link.mass = 0.0 if link.name == "world" else 1.0
            if link.mass:
                self.warn(node, "has no <inertial>; its mass is 1")
            return np.eye(3) * link.mass
        given = read_inertial(part, self.faults)
        if given.mass is None:
            raise part.error("<mass value=...> is missing")
        if given.inertia is None:
            raise part.error("<inertia> is missing")
        if not part.find("inertia").attrib.keys() >= _NEEDED_MOMENTS:
            raise part.find("inertia").error("attributes ixx, iyy and izz are needed")
        link.mass = given.mass
        link.inertial_pose = self._placed(given.origin)
        return given.inertia

    # -- shapes ----------------------------------------------------------------------------------------------

    def geometry(self, node: Node, *, visual: bool) -> Geometry:
        """Read the <geometry> of a <visual> or <collision>; the first of several shapes counts."""
        holder = node.find("geometry")
        if holder is None or not holder.children:
            raise node.error("<geometry> with a shape is missing")
        shape, pose = holder.children[0], self.pose(node)
        if shape.tag not in GEOMETRY_TYPES:
            raise shape.error("this shape is unknown")
        if shape.tag == "mesh":
            return self._mesh(node, shape, pose, visual)
        if shape.tag == "plane":
            shape.required("normal")
            return Geometry(Geom.PLANE, pose, normal=tuple(read_size(shape, self.faults).tolist()))
        size = (read_size(shape, self.faults) * self.options.scale).tolist()
        if shape.tag == "box":
            return Geometry(Geom.BOX, pose, half_extents=tuple(size))
        if shape.tag == "sphere":
            return Geometry(Geom.SPHERE, pose, radius=size[0])
        radius, height = size[0], 2.0 * size[1]
        if shape.tag == "capsule":
            return Geometry(Geom.CAPSULE, pose, radius=radius, height=height)
        if visual or self.has(LoadFlag.USE_IMPLICIT_CYLINDER):
            return Geometry(Geom.CYLINDER, pose, radius=radius, height=height)
        return cylinder_hull(radius, height, pose)

    def _mesh(self, node: Node, shape: Node, pose: Pose, visual: bool) -> Geometry:
        name = shape.required("filename")
        path = self.find(name)
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
        values = shape.floats("scale", default=(1.0, 1.0, 1.0), faults=self.faults)
        if len(values) < 3:
            text = shape.text_of("scale")
            self.warn(shape, f"scale={text!r} has fewer than three numbers; the first is used for all")
            values = np.full(3, values[0] if len(values) else 0.0)
        return values[:3] * self.options.scale

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
            material.rgba = tuple(color.floats("rgba", 4, faults=self.faults).tolist())
        if specular is not None and len((specular.text_of("rgb") or "").split()) >= 3:
            material.specular = tuple(specular.floats("rgb", 3, faults=self.faults).tolist())
        if texture is not None and texture.text_of("filename"):
            material.texture = self.find(texture.text_of("filename")) or ""
        return material

    # -- links and joints ------------------------------------------------------------------------------------

    def link(self, node: Node) -> Link:
        """Read a <link>, but for its inertia; see `finish`."""
        name = node.text_of("name")
        if not name:
            raise node.error("a link has no name")
        link = Link(name)
        self.inertia[name] = self.inertial(node, link)
        shapes = node.findall("collision")
        collisions = [self.geometry(part, visual=False) for part in shapes]
        visuals = [self.visual(part) for part in node.findall("visual")]
        link.collisions = [] if self.has(LoadFlag.IGNORE_COLLISION_SHAPES) else collisions
        link.visuals = [] if self.has(LoadFlag.IGNORE_VISUAL_SHAPES) else visuals
        if not link.visuals and link.collisions:
            self.stand_ins[name] = [Visual(self.geometry(part, visual=True)) for part in shapes]
        for part in shapes:
            if "group" in part.attrib:
                link.group = int(part.float("group", faults=self.faults))
            if "mask" in part.attrib:
                link.mask = int(part.float("mask", faults=self.faults))
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
            if part.tag in names and "value" in part.attrib:
                setattr(surface, names[part.tag], part.float("value", faults=self.faults))
            elif part.tag == "friction_anchor":
                surface.friction_anchor = True
            elif part.tag == "inertia_scaling":
                factor = part.float("value", factor, self.faults)
        return surface, factor

    def joint(self, node: Node) -> Joint:
        """Read a <joint>."""
        name, kind, parent, child = read_joint_ends(node)
        if kind == "floating":
            self.warn(node, "a floating joint inside a robot is treated as fixed")
        joint = Link(joint_name=name, joint_type=int(_JOINT_KINDS[kind]), joint_pose=self.pose(node))
        axis = self._axis(node, kind)
        joint.axis_length = float(np.linalg.norm(axis)) or 1.0
        joint.axis = axis / joint.axis_length
        self._limits(node, kind, joint)
        joint.damping, joint.friction = read_dynamics(node, self.faults)
        return Joint(name, parent, child, node, joint)

    def _axis(self, node: Node, kind: str) -> np.ndarray:
        if kind in ("fixed", "floating"):
            return np.zeros(3)
        element = node.find("axis")
        if element is None or not element.text_of("xyz"):
            return np.array([1.0, 0.0, 0.0])
        if len(element.text_of("xyz").split()) < 3:
            raise element.error(f"xyz={element.text_of('xyz')!r} has fewer than three numbers")
        return element.floats("xyz", 3, faults=self.faults)

    def _limits(self, node: Node, kind: str, joint: Link) -> None:
        limit = node.find("limit")
        if limit is None:
            if kind in ("revolute", "prismatic"):
                raise node.error(f"a {kind} joint needs <limit>")
            return
        scale = self.options.scale if kind == "prismatic" else 1.0
        lower, upper = limit.float("lower", 0.0, self.faults), limit.float("upper", -1.0, self.faults)
        joint.limits = (scale * lower, scale * upper)
        joint.stops = kind != "continuous"
        joint.max_force = limit.float("effort", 0.0, self.faults)
        joint.max_velocity = limit.float("velocity", 0.0, self.faults)
