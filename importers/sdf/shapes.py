"""Visuals and collisions of SDFormat."""

from pathlib import Path

import numpy as np

from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.meshes import read_png_heights
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.geometry.shapes import Geometry, Material
from newtonsim.importers.sdf import text
from newtonsim.importers.sdf.document import Document
from newtonsim.importers.sdf.records import Collision, Surface

KINDS = ("box", "sphere", "cylinder", "capsule", "cone", "ellipsoid", "mesh", "plane", "heightmap")
_ROUND = ("cylinder", "capsule", "cone")


def parse_visual(node: Node, pose: Pose, document: Document, report: ImportReport) -> Geometry | None:
    """Read a <visual>; None when its geometry is empty or not supported."""
    shape = _geometry(node, pose, document, report)
    material = node.find("material")
    if shape is not None and material is not None:
        diffuse = material.find("diffuse")
        if diffuse is not None:
            words = [float(value) for value in text.vector(material, "diffuse", len(diffuse.text.split()))]
            if len(words) not in (3, 4):
                raise diffuse.error(f"a colour has 3 or 4 numbers, got {len(words)}")
            alpha = (words[3] if len(words) == 4 else 1.0) * (1.0 - text.number(node, "transparency", 0.0))
            shape.material = Material((*words[:3], alpha))
    return shape


def parse_collision(node: Node, pose: Pose, document: Document, report: ImportReport) -> Collision | None:
    """Read a <collision>; None when its geometry is empty or not supported."""
    shape = _geometry(node, pose, document, report)
    if shape is None:
        return None
    density = text.number(node, "density")
    if density is not None and density < 0.0:
        raise node.find("density").error(f"the density must not be negative, got {density:g}")
    return Collision(shape, _surface(node.find("surface"), report), density)


def _geometry(node: Node, pose: Pose, document: Document, report: ImportReport) -> Geometry | None:
    holder = node.find("geometry")
    if holder is None:
        raise node.error("<geometry> is missing")
    shapes = [child for child in holder.children if child.tag != "empty"]
    if not shapes:
        return None
    if len(shapes) > 1:
        raise holder.error(f"expected one shape, found {', '.join(child.tag for child in shapes)}")
    shape = shapes[0]
    if shape.tag not in KINDS:
        report.unsupported(shape, "shapes of this kind are left out")
        return None
    result = Geometry(shape.tag, np.zeros(3), pose, shape, node.text_of("name"))
    if shape.tag == "box":
        result.size = 0.5 * _positive_vector(shape, "size", 3)
    elif shape.tag == "ellipsoid":
        result.size = _positive_vector(shape, "radii", 3)
    elif shape.tag == "sphere":
        result.size = np.array([text.positive(shape, "radius")])
    elif shape.tag in _ROUND:
        result.size = np.array([text.positive(shape, "radius"), 0.5 * text.positive(shape, "length")])
    elif shape.tag == "plane":
        normal = text.vector(shape, "normal", 3, (0.0, 0.0, 1.0))
        if not np.linalg.norm(normal) > 1.0e-9:
            raise shape.error("the normal is zero")
        result.size = normal / np.linalg.norm(normal)
    elif shape.tag == "mesh":
        result.mesh, result.size = _mesh(shape, document, report)
    else:
        _read_heights(shape, result, document, report)
    return result


def _positive_vector(node: Node, tag: str, count: int) -> np.ndarray:
    text.required(node, tag)
    values = text.vector(node, tag, count)
    if (values <= 0.0).any():
        raise node.find(tag).error(f"the values must be positive, got {node.find(tag).text[:80]!r}")
    return values


def _mesh(node: Node, document: Document, report: ImportReport) -> tuple[Path, np.ndarray]:
    path = document.find(text.required(node, "uri"), node)
    if node.find("submesh") is not None:
        report.unsupported(node.find("submesh"), "the whole mesh is used")
    if node.text_of("optimization"):
        report.approximated(
            node, "the mesh collides as its hull on links that move, and as its surface on others"
        )
    scale = text.vector(node, "scale", 3, (1.0, 1.0, 1.0))
    if not scale.all():
        raise node.find("scale").error("a scale must not be zero")
    return path, scale


def _read_heights(node: Node, shape: Geometry, document: Document, report: ImportReport) -> None:
    """Heights of an image: black is zero, its brightest pixel the height of the map."""
    path = document.find(text.required(node, "uri"), node)
    if path.suffix.lower() != ".png":
        raise node.error(f"height maps are PNG images here, got {path.name!r}")
    extent = _positive_vector(node, "size", 3) if node.find("size") is not None else np.ones(3)
    pixels = read_png_heights(path, node)
    if min(pixels.shape) < 2:
        raise node.error(f"a height map needs at least 2 x 2 pixels, got {pixels.shape}")
    brightest = float(pixels.max())
    shape.heights = pixels * (extent[2] / brightest) if brightest > 0.0 else pixels * 0.0
    shape.size = extent[:2]
    shape.pose = shape.pose @ Pose(text.vector(node, "pos", 3, (0.0, 0.0, 0.0)), Pose.identity().q)
    for child in node.children:
        if child.tag in ("blend", "texture"):
            report.ignored(child)


def _surface(node: Node | None, report: ImportReport) -> Surface:
    surface = Surface()
    if node is None:
        return surface
    friction, bounce, contact = node.find("friction"), node.find("bounce"), node.find("contact")
    if friction is not None:
        _read_friction(friction, surface, report)
    if bounce is not None:
        surface.restitution = text.not_negative(bounce, "restitution_coefficient")
        if 0.0 < text.bound(bounce, "threshold", np.inf) < np.inf and surface.restitution > 0.0:
            report.unsupported(bounce.find("threshold"), "the threshold of rebound is the solver's")
    if contact is not None:
        surface.collide = text.bits(contact, "collide_bitmask", surface.collide)
        surface.category = text.bits(contact, "category_bitmask", surface.collide)
        if text.flag(contact, "collide_without_contact", False):
            surface.collide = surface.category = 0
        for engine in ("ode", "bullet"):
            if contact.find(engine) is not None:
                report.unsupported(
                    contact.find(engine), "the solver and the contact_* arguments define the contacts"
                )
    if node.find("soft_contact") is not None:
        report.unsupported(node.find("soft_contact"))
    return surface


def _read_friction(node: Node, surface: Surface, report: ImportReport) -> None:
    """Sliding friction of <ode>, or that of <bullet>; one coefficient for all directions."""
    ode, bullet, torsional = node.find("ode"), node.find("bullet"), node.find("torsional")
    if ode is not None:
        surface.mu = text.not_negative(ode, "mu", 1.0)
        second = text.not_negative(ode, "mu2", surface.mu)
        if second != surface.mu:
            report.approximated(ode, f"one coefficient of friction, {surface.mu:g}, for both directions")
        for tag in ("slip1", "slip2"):
            if text.number(ode, tag, 0.0) != 0.0:
                report.unsupported(ode.find(tag), "slip that depends on force")
    elif bullet is not None:
        surface.mu = text.not_negative(bullet, "friction", 1.0)
        surface.rolling = text.not_negative(bullet, "rolling_friction")
    if torsional is not None:
        surface.torsion = text.not_negative(torsional, "coefficient", 1.0)
        if text.flag(torsional, "use_patch_radius", True):
            # The moment of a round patch under even pressure is 2/3 of its radius times the friction force.
            surface.torsion *= text.not_negative(torsional, "patch_radius") * 2.0 / 3.0
