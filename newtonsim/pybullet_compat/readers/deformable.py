"""The <deformable> extension of URDF, as arguments of loadSoftBody."""

from __future__ import annotations

from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.xml import Node
from newtonsim.pybullet_compat.readers.geometry import find_file

_VALUES = {
    "collision_margin": "collisionMargin",
    "repulsion_stiffness": "repulsionStiffness",
    "friction": "frictionCoeff",
}
_NEO_HOOKEAN = {"mu": "NeoHookeanMu", "lambda": "NeoHookeanLambda", "damping": "NeoHookeanDamping"}
_SPRINGS = {
    "elastic_stiffness": "springElasticStiffness",
    "damping_stiffness": "springDampingStiffness",
    "bending_stiffness": "springBendingStiffness",
}


def read_deformable(node: Node, document: str, faults: Faults) -> dict[str, object]:
    """Read a <deformable>.

    Args:
        node: The element.
        document: The file that it stands in.
        faults: Meets what is forgiven.

    Returns:
        Arguments of loadSoftBody, without position, orientation and scale.

    Raises:
        ImportFileError: There is no mesh that is seen, or a mesh is not found.
    """
    arguments: dict[str, object] = {"fileName": _file(node, "visual", document)}
    if node.find("collision") is not None:
        arguments["simFileName"] = _file(node, "collision", document)
    inertial = node.find("inertial")
    mass = inertial.find("mass") if inertial is not None else None
    if mass is not None and mass.text_of("value") is not None:
        arguments["mass"] = mass.float("value", faults=faults)
    for part in node.children:
        if part.tag in _VALUES and part.text_of("value") is not None:
            arguments[_VALUES[part.tag]] = part.float("value", faults=faults)
        elif part.tag == "neohookean":
            arguments["useNeoHookean"] = 1
            arguments.update(_named(part, _NEO_HOOKEAN, faults))
        elif part.tag == "spring":
            arguments["useMassSpring"] = 1
            arguments.update(_named(part, _SPRINGS, faults))
            arguments["useBendingSprings"] = int("springBendingStiffness" in arguments)
    return arguments


def _named(node: Node, names: dict[str, str], faults: Faults) -> dict[str, float | None]:
    return {ours: node.float(name, faults=faults) for name, ours in names.items() if name in node.attrib}


def _file(node: Node, tag: str, document: str) -> str:
    mesh = node.find(tag)
    name = mesh.text_of("filename") if mesh is not None else None
    if mesh is None or not name:
        raise node.error(f"<{tag} filename=...> is missing")
    path = find_file(name, document)
    if path is None:
        raise mesh.error(f"file {name!r} is not found")
    return path
