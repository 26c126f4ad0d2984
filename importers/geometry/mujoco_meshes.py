"""Meshes that MuJoCo makes, by a plugin or of a `builtin` kind, taken from it where it is installed."""

from collections.abc import Iterable
from xml.etree import ElementTree

import numpy as np

from newtonsim.geometry.transforms import quat_matrix, quat_rotate
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.meshes import Surface

PLUGINS = "mujoco.sdf."
"""How the names of those plugins begin that come with MuJoCo and make meshes."""

_LARGEST = 1000.0
"""Number of a mesh from which on MuJoCo is not asked: it might make millions of triangles."""


def mujoco_mesh(node: Node, extensions: Iterable[Node]) -> tuple[Surface, MassProps] | None:
    """Return a mesh as MuJoCo makes it, in the frame in which a file places it, and its matter at 1 kg/m³.

    The inertia of a mesh of a plugin is not that of its triangles, since MuJoCo takes the centre of mass and
    the principal axes of such a mesh for the origin and the axes of its frame.

    Args:
        node: The <mesh>, with the attributes of its class.
        extensions: The <extension> sections of the file, which name its plugins.

    Returns:
        None if MuJoCo is not installed or makes no such mesh.
    """
    try:
        import mujoco
    except ImportError:
        return None
    plugins = [one for section in extensions for one in section.findall("plugin")]
    plugins = [one for one in plugins if one.attrib.get("plugin", "").startswith(PLUGINS)]
    if any(_is_large(one) for root in (node, *plugins) for one in root.walk()):
        return None
    root = ElementTree.Element("mujoco")
    ElementTree.SubElement(root, "extension").extend(_element(one) for one in plugins)
    mesh = _element(node)
    mesh.attrib.pop("class", None)
    mesh.set("name", "mesh")
    ElementTree.SubElement(root, "asset").append(mesh)
    world = ElementTree.SubElement(root, "worldbody")
    body = ElementTree.SubElement(world, "body")
    geom = ElementTree.SubElement(body, "geom", type="mesh", mesh="mesh", density="1000")
    if (plugin := node.find("plugin")) is not None:
        geom.set("type", "sdf")
        geom.append(_element(plugin))
    try:
        model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError):
        return None
    # MuJoCo moves the vertices of other meshes to these, and their geom to where they were
    vertices = quat_rotate(_xyzw(model.geom_quat[0]), model.mesh_vert.astype(np.float64)) + model.geom_pos[0]
    axes = quat_matrix(_xyzw(model.body_iquat[1]))
    inertia = axes @ np.diag(model.body_inertia[1]) @ axes.T
    matter = MassProps(float(model.body_mass[1]), model.body_ipos[1].copy(), inertia).times(1.0e-3)
    return Surface(vertices, model.mesh_face.copy()), matter


def _xyzw(quaternion: np.ndarray) -> np.ndarray:
    w, x, y, z = quaternion
    return np.array([x, y, z, w])


def _is_large(node: Node) -> bool:
    """Whether an element has numbers of which MuJoCo might make a mesh without end."""
    for text in node.attrib.values():
        for word in text.split():
            try:
                if not abs(float(word)) <= _LARGEST:
                    return True
            except ValueError:  # a word
                continue
    return False


def _element(node: Node) -> ElementTree.Element:
    result = ElementTree.Element(node.tag, node.attrib)
    result.extend(_element(child) for child in node.children)
    return result
