"""Mass and inertia of bodies, by the rules of MJCF's <compiler>."""

import numpy as np

from newtonsim.importers.building.masses import left_out
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.geometry.massprops import MassProps, combine
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
