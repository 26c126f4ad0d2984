"""Geoms: their attributes, size rules, and mass."""

import numpy as np

from newtonsim.geometry.transforms import quat_from_matrix
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.geometry import massprops
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.meshes import convex_hull
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.assets import Assets
from newtonsim.importers.mjcf.document import Document, quat_of_z
from newtonsim.importers.mjcf.records import (
    FLUID_COEFFICIENTS,
    LEFT_TO_MUJOCO,
    Geom,
    Material,
    MeshAsset,
    SolverParameters,
)
from newtonsim.scene.arrays import SOLIMP, SOLREF

KINDS = ("plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh", "sdf")
_SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3}
_LONG = ("capsule", "cylinder", "box", "ellipsoid")


def parse_geom(
    node: Node,
    inherited: str | None,
    frame: Pose,
    document: Document,
    assets: Assets,
    report: ImportReport,
    parse_meshes: bool = True,
) -> Geom | None:
    """Read one <geom>; None when its type is not supported or not wanted.

    Args:
        node: The element.
        inherited: `childclass` of the enclosing bodies and frames.
        frame: Pose of the enclosing <frame> elements in the body.
        document: The file's settings.
        assets: Meshes, height fields and materials.
        report: Receives what is not modelled.
        parse_meshes: Whether geoms of type mesh are wanted.
    """
    node, class_name = document.defaults.resolve(node, inherited)
    kind = node.keyword("type", KINDS, "sphere")
    if kind in ("mesh", "sdf") and not parse_meshes:
        return None
    mesh = None
    if kind in ("mesh", "sdf") or "mesh" in node.attrib:
        maker = assets.maker_of_missing_mesh(node.required("mesh"), node)
        if maker is not None:
            remark = (
                f"a geom whose mesh is made by {maker} is left out; the package mujoco would have to make it"
            )
            report.unsupported(node, remark)
            return None
        mesh = assets.mesh(node.required("mesh"), node)
    if kind == "sdf":
        report.approximated(node, "collides as the surface of its mesh")
        kind = "mesh"
    if mesh is not None and kind != "mesh":
        size, pose = _fit(kind, mesh, document, node)
        mesh = None
    else:
        size, pose = _size_and_pose(kind, node, document)
    geom = Geom(node.text_of("name"), node, kind, size, frame @ pose, class_name, mesh)
    if kind == "hfield":
        geom.heights = assets.heights(node.required("hfield"), node)
    _read_mass(geom)
    _read_contact(geom, report, document.faults)
    geom.group = node.int("group", 0)
    geom.material = _material(node, assets)
    if node.text_of("fluidshape", "none") != "none":
        report.unsupported(node, "fluid forces on geoms", unless=LEFT_TO_MUJOCO)
        geom.mujoco["fluid_ellipsoid"] = 1.0
        given = node.floats("fluidcoef", default=())
        geom.mujoco["fluid_coefs"] = [*map(float, given), *FLUID_COEFFICIENTS[len(given) :]]
    _keep_for_mujoco(geom, report)
    return geom


def _keep_for_mujoco(geom: Geom, report: ImportReport) -> None:
    """Keep forces of contacts that only MuJoCo has."""
    adhesion = geom.node.float("adhesion", 0.0)
    if adhesion:
        report.unsupported(geom.node, "adhesion of geoms", unless=LEFT_TO_MUJOCO)
        geom.mujoco["adhesion"] = adhesion
    velocity = geom.node.floats("surfacevel", 6, at_least=1, default=(0.0,))
    if velocity.any():
        report.unsupported(geom.node, "surfacevel", unless=LEFT_TO_MUJOCO)
        geom.mujoco["surfacevel"] = [*velocity.tolist(), *[0.0] * (6 - len(velocity))]


def _read_mass(geom: Geom) -> None:
    node = geom.node
    geom.mass, geom.density = node.float("mass"), node.float("density")
    for name, value in (("mass", geom.mass), ("density", geom.density)):
        if value is not None and value < 0.0:
            raise node.error(f"attribute '{name}' must not be negative, got {value:g}")
    geom.shell = node.bool("shellinertia", False)


def _read_contact(geom: Geom, report: ImportReport, faults: Faults) -> None:
    node = geom.node
    geom.contype, geom.conaffinity = node.int("contype", 1), node.int("conaffinity", 1)
    geom.condim = node.int("condim", 3)
    if geom.condim not in (1, 3, 4, 6):
        raise node.error(f"attribute 'condim' is {geom.condim}, expected 1, 3, 4 or 6")
    friction = node.floats("friction", 3, at_least=1)
    if friction is not None:
        if (friction < 0.0).any():
            raise node.error("attribute 'friction' must not be negative")
        full = np.array([1.0, 0.005, 0.0001])
        full[: len(friction)] = friction
        geom.friction = full
    geom.margin = node.float("margin")
    if geom.margin is not None and geom.margin < 0.0:
        report.unsupported(node, "a negative margin")
        geom.margin = None
    if node.float("gap", 0.0) != 0.0:
        report.ignored(node, "gap, by which MuJoCo detects contacts before they act")
    geom.solver = solver_parameters(node, "solref", "solimp", faults)
    geom.priority, geom.solmix = node.int("priority", 0), node.float("solmix", 1.0)
    if geom.solmix < 0.0:
        raise node.error(f"attribute 'solmix' must not be negative, got {geom.solmix:g}")


def solver_parameters(node: Node, ref: str, imp: str, faults: Faults) -> SolverParameters | None:
    """Read parameters of MuJoCo's constraint solver; None where neither is stated, by a class or otherwise.

    MuJoCo compiles parameters out of their range, and steps with the nearest ones in it; in place of a solref
    of one positive and one negative number it takes its default.
    """
    if node.floats(ref) is None and node.floats(imp) is None:
        return None
    found = []
    for name, usual in ((ref, SOLREF), (imp, SOLIMP)):
        values = node.floats(name, default=())
        if len(values) > len(usual):
            raise node.error(f"attribute '{name}' has {len(values)} numbers, expected at most {len(usual)}")
        found.append((*map(float, values), *usual[len(values) :]))
    (first, second), (low, high, width, middle, power) = found
    if (first > 0.0) != (second > 0.0):
        fault = node.error(f"attribute '{ref}': expected two positive numbers, or two that are not")
        faults.meet(fault, "MuJoCo's default is used")
        first, second = SOLREF
    inside = (min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0), max(width, 0.0))
    inside += (min(max(middle, 0.0), 1.0), max(power, 1.0))
    if inside != (low, high, width, middle, power):
        given = " ".join(f"{value:g}" for value in (low, high, width, middle, power))
        fault = node.error(f"attribute '{imp}' is out of range: {given}")
        faults.meet(fault, " ".join(f"{value:g}" for value in inside) + " is used")
    # no impedance is wholly 0 or 1, and so no middle
    middle = min(max(middle, 1.0e-4), 0.9999)
    return SolverParameters((first, second), (*inside[:3], middle, inside[4]))


def _material(node: Node, assets: Assets) -> Material:
    rgba = node.floats("rgba", 4)
    name = node.text_of("material")
    material = assets.material(name, node) if name else Material()
    return Material(tuple(rgba.tolist()), material.texture) if rgba is not None else material


# -- size ----------------------------------------------------------------------------------------------------


def _size_and_pose(kind: str, node: Node, document: Document) -> tuple[np.ndarray, Pose]:
    if kind in ("mesh", "hfield", "plane"):
        return np.zeros(3), document.pose_of(node)
    count = _SIZES[kind]
    given = node.floats("size", 3, (), at_least=0)
    size = np.zeros(3)
    size[: len(given)] = given
    if "fromto" in node.attrib:
        if kind not in _LONG:
            raise node.error(f"fromto needs one of {', '.join(_LONG)}, not {kind}")
        ends = node.floats("fromto", 6)
        along = ends[:3] - ends[3:]
        length = np.linalg.norm(along)
        if length < 1.0e-12:
            raise node.error("the two points of fromto are the same")
        half = 0.5 * length
        size = np.array([size[0], half, 0.0]) if count == 2 else np.array([size[0], size[0], half])
        pose = Pose(0.5 * (ends[:3] + ends[3:]), quat_of_z(along / length))
    else:
        pose = document.pose_of(node)
    if (size[:count] <= 0.0).any():
        raise node.error(f"a {kind} needs {count} positive sizes, got {node.text_of('size', '')!r}")
    return size, pose


def _fit(kind: str, mesh: MeshAsset, document: Document, node: Node) -> tuple[np.ndarray, Pose]:
    """Fit a primitive to a mesh, by its equivalent inertia box or by its box along the principal axes."""
    if kind not in _SIZES:
        raise node.error(f"a {kind} cannot be fitted to a mesh")
    props = mesh_mass(mesh, 1.0, node)
    moments, axes = np.linalg.eigh(props.inertia)
    moments, axes = moments[::-1], axes[:, ::-1]  # z last: the longest direction
    axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
    centre = props.com
    if document.compiler.fit_aabb:
        local = (mesh.vertices - centre) @ axes
        half = 0.5 * (local.max(axis=0) - local.min(axis=0))
        centre = centre + axes @ (0.5 * (local.max(axis=0) + local.min(axis=0)))
        radius, ball = max(half[0], half[1]), half.max()
        capsule_half = max(half[2] - radius, 1.0e-9)
    else:
        half = np.sqrt(np.maximum(1.5 * (moments.sum() - 2.0 * moments) / props.mass, 0.0))
        radius, ball = 0.5 * (half[0] + half[1]), half.mean()
        capsule_half = max(half[2] - 0.5 * radius, 1.0e-9)
    size = {
        "sphere": np.array([ball, 0.0, 0.0]),
        "capsule": np.array([radius, capsule_half, 0.0]),
        "cylinder": np.array([radius, half[2], 0.0]),
    }.get(kind, half)
    size = size * node.float("fitscale", 1.0)
    return size, document.pose_of(node) @ Pose(centre, quat_from_matrix(axes))


# -- mass ----------------------------------------------------------------------------------------------------


def geom_mass(geom: Geom, density: float) -> MassProps:
    """Mass properties of a geom in its body's frame.

    Args:
        geom: The geom; its own mass wins over its own density, which wins over the argument.
        density: Default density [kg/m^3], or [kg/m^2] for shells.
    """
    density = density if geom.density is None else geom.density
    if geom.mass == 0.0 or (geom.mass is None and density == 0.0):
        return MassProps.zero()
    shape = _shape_mass(geom, density if geom.mass is None else 1.0)
    if geom.mass is not None:
        shape = shape.with_mass(geom.mass)
    return shape.moved(geom.pose)


def _shape_mass(geom: Geom, density: float) -> MassProps:
    size, shell = geom.size, geom.shell
    if geom.kind == "sphere":
        return massprops.sphere(size[0], density, shell)
    if geom.kind == "capsule":
        return massprops.capsule(size[0], size[1], density, shell)
    if geom.kind == "cylinder":
        return massprops.cylinder(size[0], size[1], density, shell)
    if geom.kind == "box":
        return massprops.box(size, density, shell)
    if geom.kind == "ellipsoid":
        return massprops.ellipsoid(size, density, shell)
    if geom.kind == "mesh":
        return mesh_mass(geom.mesh, density, geom.node)
    if geom.heights is not None:
        return massprops.box(geom.heights.solid, density, shell)
    return MassProps.zero()


def mesh_mass(mesh: MeshAsset, density: float, node: Node) -> MassProps:
    """Mass properties of a mesh by the rule that the asset names."""
    if mesh.matter is not None:
        props = mesh.matter.times(density)
    elif mesh.inertia == "legacy":
        props = massprops.mesh_unsigned(mesh.vertices, mesh.faces, density)
    elif mesh.inertia == "convex":
        props = massprops.mesh(*convex_hull(mesh.vertices, node), density)
    else:
        props = massprops.mesh(mesh.vertices, mesh.faces, density, mesh.inertia == "shell")
    if not props.mass > 0.0:
        raise node.error(f"mesh {mesh.name!r} encloses no volume; give it inertia='shell' or 'convex'")
    return props
