"""Mass and inertia of bodies, by the rules of MJCF's <compiler>, and body frames that follow them."""

import math

import numpy as np

from newtonsim.geometry.transforms import quat_from_matrix, quat_matrix
from newtonsim.importers.building.masses import left_out
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.massprops import MassProps, combine
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.mjcf.document import Compiler
from newtonsim.importers.mjcf.geoms import geom_mass
from newtonsim.importers.mjcf.records import Body, Geom, Scene


def compile_masses(
    scene: Scene,
    compiler: Compiler,
    colliders: set[int],
    density: float,
    ignore_inertial: bool,
    report: ImportReport,
) -> list[MassProps]:
    """Mass properties of every body in its own frame; entry 0, the world, is empty.

    Args:
        scene: The records.
        compiler: Settings that bound and scale masses.
        colliders: `id` of the geoms that collide.
        density: Density of geoms that have none of their own [kg/m^3].
        ignore_inertial: Compute from geoms even where the file has an <inertial>.
        report: Receives remarks.
    """
    masses = [MassProps.zero()]
    for body in scene.bodies[1:]:
        props = _body_mass(body, compiler, colliders, density, ignore_inertial, report)
        masses.append(_bounded(props, compiler, body))
    if compiler.total_mass > 0.0:
        total = sum(props.mass for props in masses)
        if total > 0.0:
            masses = [props.times(compiler.total_mass / total) for props in masses]
    return masses


def _body_mass(
    body: Body,
    compiler: Compiler,
    colliders: set[int],
    density: float,
    ignore_inertial: bool,
    report: ImportReport,
) -> MassProps:
    rule = compiler.inertia_from_geom
    own = body.inertial
    if own is not None and not ignore_inertial and rule != "true":
        return own
    if rule == "false" and not ignore_inertial:
        return MassProps.zero()
    low, high = compiler.inertia_groups
    geoms = [geom for geom in body.geoms if low <= geom.group <= high]
    if own is not None and rule != "true":
        # A file with <inertial> gives visual geoms no thought: their mass would be counted on top.
        geoms = _preferred(geoms, colliders)
    props = combine([geom_mass(geom, density) for geom in geoms])
    if props.mass <= 0.0 and own is not None and rule != "true":
        report.approximated(body.node, "there is no geometry to compute the mass from; <inertial> is used")
        return own
    if own is not None and rule != "true":
        report.approximated(body.node, left_out(own.mass, props.mass))
    return props


def _preferred(geoms: list[Geom], colliders: set[int]) -> list[Geom]:
    chosen = [geom for geom in geoms if id(geom) in colliders]
    return chosen or geoms


def _bounded(props: MassProps, compiler: Compiler, body: Body) -> MassProps:
    """Apply boundmass, boundinertia and balanceinertia, which act on the principal moments.

    The mass that boundmass gives to a body without mass and <inertial> lies at the body's own `pos` in the
    body's frame, as compiling files shows.
    """
    if props.mass <= 0.0 < compiler.bound_mass and body.inertial is None:
        props = MassProps(0.0, body.node.floats("pos", 3, (0.0, 0.0, 0.0)), props.inertia)
    mass = max(props.mass, compiler.bound_mass)
    if mass <= 0.0 or not (compiler.bound_mass or compiler.bound_inertia or compiler.balance_inertia):
        return props
    moments, axes = np.linalg.eigh(props.inertia)
    moments = np.maximum(moments, compiler.bound_inertia)
    if compiler.balance_inertia and moments[0] + moments[1] < moments[2]:
        moments[:] = moments.mean()
    return MassProps(mass, props.com, axes @ np.diag(moments) @ axes.T)


MESHES = ("mesh", "hfield", "sdf")
"""Kinds of geoms whose frame in MuJoCo lies along their principal axes."""


def align_free_bodies(
    scene: Scene, masses: list[MassProps], compiler: Compiler, density: float, ignore_inertial: bool
) -> None:
    """Move the frames of free bodies into their principal axes of inertia, where the file asks for that.

    It asks by `align` of <freejoint> or `alignfree` of <compiler>, and means bodies that carry no others.
    What lies on them stays where it is in the world; anchors of equalities and keyframes are about the new
    frame.

    Source: MuJoCo's documentation, "XML reference", and what it makes of files.
    """
    carrying = {body.parent for body in scene.bodies[1:]}
    for number, body in enumerate(scene.bodies[1:], start=1):
        free = [joint.node for joint in body.joints if joint.kind == "free"]
        if not free or number in carrying or masses[number].mass <= 0.0:
            continue
        asked = free[0].text_of("align", "auto") if free[0].tag == "freejoint" else "auto"
        if not (compiler.align_free if asked == "auto" else asked == "true"):
            continue
        props = masses[number]
        frame = Pose(props.com, _principal_frame(body, props, compiler, density, ignore_inertial))
        back = frame.inverse()
        body.pose, masses[number] = body.pose @ frame, props.moved(back)
        for part in (*body.geoms, *body.sites):
            part.pose = back @ part.pose


def _principal_frame(
    body: Body, props: MassProps, compiler: Compiler, density: float, ignore_inertial: bool
) -> np.ndarray:
    """Orientation of principal axes as MuJoCo has it: those of the file, or the largest moment first."""
    low, high = compiler.inertia_groups
    solids = [
        geom for geom in body.geoms if low <= geom.group <= high and geom_mass(geom, density).mass > 0.0
    ]
    stated = body.inertial_frame
    if stated is not None and not ignore_inertial and compiler.inertia_from_geom != "true":
        start, given = stated.q, body.inertial_is_diagonal
    elif len(solids) == 1:
        start, given = solids[0].pose.q, solids[0].kind not in MESHES
    else:
        start, given = Pose.identity().q, False
    if given:
        return start
    turn = quat_matrix(start)
    return quat_from_matrix(turn @ principal_axes(turn.T @ props.inertia @ turn))


def principal_axes(inertia: np.ndarray) -> np.ndarray:
    """Axes as columns (3, 3) along which an inertia (3, 3) is diagonal, the largest moment first.

    Of the rotations that do so it is the one that Jacobi's method comes to, largest entry first (Golub and
    Van Loan, "Matrix Computations", section 8.5), followed by quarter turns that sort the moments.
    """
    A, axes = np.array(inertia, np.float64), np.eye(3)
    for _ in range(50):
        i, j = max(((0, 1), (0, 2), (1, 2)), key=lambda pair: abs(A[pair]))
        if abs(A[i, j]) <= 1.0e-15 * np.trace(A):
            break
        angle = 0.5 * math.atan2(2.0 * A[i, j], A[i, i] - A[j, j])
        angle -= 0.5 * math.pi * round(angle / (0.5 * math.pi))
        turn = _turn(i, j, math.cos(angle), math.sin(angle))
        A, axes = turn.T @ A @ turn, axes @ turn
    for i in (0, 1, 0):
        if A[i, i] < A[i + 1, i + 1]:
            turn = _turn(i, i + 1, 0.0, 1.0)
            A, axes = turn.T @ A @ turn, axes @ turn
    return axes


def _turn(i: int, j: int, cosine: float, sine: float) -> np.ndarray:
    """Rotation in the plane of the axes i and j."""
    turn = np.eye(3)
    turn[i, i] = turn[j, j] = cosine
    turn[j, i], turn[i, j] = sine, -sine
    return turn
