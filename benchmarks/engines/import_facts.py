"""What a robot file holds, as newtonsim and as others read it, in figures that can be compared."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engines.pybullet_client import quiet
from newtonsim.builder import ModelBuilder
from newtonsim.errors import DefaultsWarning, UnsupportedElementWarning
from newtonsim.importers import ImportReport, parse_mjcf, parse_urdf

TOLERANCE = 1.0e-5
"""Largest relative difference of masses and inertias; that of lengths is relative to at least 1 m."""

UNLIMITED = 1.0e5
"""Limits beyond this are none [rad or m]: importers and URDF files write very large numbers for that."""


@dataclass
class Facts:
    """One reading of a file.

    Attributes:
        mass: Total mass [kg].
        com: Centre of mass in the default pose (3,) [m], None if that reader does not tell it.
        coordinates: Number of entries of the configuration, None if it cannot be compared.
        dofs: Number of degrees of freedom.
        actuators: Number of actuators, None for formats without.
        ranges: Limits of hinges and slides by joint name, None for joints without.
        inertias: Principal moments of inertia by body name (3,) [kg m²], ascending.
        start: Coordinates of hinges and slides in the default pose by joint name.
        modelled: Actuators that drive something, of ours.
        unsupported: Elements that are read but not modelled, of ours.
    """

    mass: float
    com: np.ndarray | None
    coordinates: int | None
    dofs: int
    actuators: int | None = None
    ranges: dict[str, tuple[float, float] | None] = field(default_factory=dict)
    inertias: dict[str, np.ndarray] = field(default_factory=dict)
    start: dict[str, float] = field(default_factory=dict)
    modelled: int = 0
    unsupported: int = 0


def find_models(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (format, file) of all URDF and MJCF files below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".urdf":
            yield "urdf", path
        elif path.suffix == ".xml" and path.is_file() and b"<mujoco" in path.read_bytes():
            yield "mjcf", path


# -- newtonsim -----------------------------------------------------------------------------------------------


def read_ours(kind: str, path: Path) -> Facts:
    """Read a file with newtonsim, as it is: no mass is invented, no joint added."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    common = {"ignore_inertial_definitions": False, "ensure_nonstatic_links": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        warnings.simplefilter("ignore", DefaultsWarning)
        if kind == "mjcf":
            report = parse_mjcf(path, builder, floating=None, collapse_fixed_joints=None, **common)
        else:
            report = parse_urdf(path, builder, density=0.0, stiffness=0.0, damping=0.0, **common)
    # Chains of joints have links of negligible mass between them, which are in no file.
    bodies = sorted(set(report.bodies.values()) - {-1})
    mass = np.array([builder.body_mass[body] for body in bodies], dtype=np.float64)
    points = np.array([_point(builder.body_q[body], builder.body_com[body]) for body in bodies])
    ranges, start = _our_joints(builder, report)
    return Facts(
        mass=float(mass.sum()),
        com=mass @ points / mass.sum() if mass.sum() > 0.0 else None,
        coordinates=len(builder.joint_q),
        dofs=len(builder.joint_qd),
        actuators=len(report.actuators) if kind == "mjcf" else None,
        ranges=ranges,
        inertias={
            name: np.linalg.eigvalsh(np.array(builder.body_inertia[body], dtype=np.float64).reshape(3, 3))
            for name, body in report.bodies.items()
            if body >= 0
        },
        start=start,
        modelled=sum(actuator["axis"] is not None for actuator in report.actuators),
        unsupported=len(report.of_kind("unsupported")),
    )


def _point(pose: object, local: object) -> np.ndarray:
    from newtonsim.geometry.transforms import quat_rotate

    row = np.array([float(value) for value in pose])
    return row[:3] + quat_rotate(row[3:], np.array([float(value) for value in local]))


def _our_joints(builder: ModelBuilder, report: ImportReport) -> tuple[dict, dict]:
    """Limits and coordinates of hinges and slides in the numbers of the file."""
    axis_of = {
        builder.joint_qd_start[joint] + place: builder.joint_axis_start[joint] + place
        for joint in range(builder.joint_count)
        for place in range(sum(builder.joint_axis_dim[joint]))
    }
    ranges, start = {}, {}
    for name, dof in report.joint_dofs.items():
        axis = axis_of.get(dof)
        if axis is None:
            continue
        ref = report.joint_refs.get(name, 0.0)
        low, high = builder.joint_limit_lower[axis] + ref, builder.joint_limit_upper[axis] + ref
        ranges[name] = (low, high) if low > -UNLIMITED or high < UNLIMITED else None
        start[name] = builder.joint_q[report.joint_coords[name]] + ref
    return ranges, start


# -- others --------------------------------------------------------------------------------------------------


def read_mujoco(path: Path) -> Facts:
    """Compile a file with MuJoCo; the mass that mocap bodies have there moves nothing and does not count."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    ranges = {}
    # numbers, as MuJoCo's enums compare unequal to NumPy's integers from the left
    single = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    for joint in range(model.njnt):
        name = model.joint(joint).name
        if name and int(model.jnt_type[joint]) in single:
            ranges[name] = tuple(model.jnt_range[joint]) if model.jnt_limited[joint] else None
    mass = np.where(model.body_mocapid < 0, model.body_mass, 0.0)[1:]
    return Facts(
        mass=float(mass.sum()),
        com=mass @ data.xipos[1:] / mass.sum() if mass.sum() > 0.0 else None,
        coordinates=model.nq,
        dofs=model.nv,
        actuators=model.nu,
        ranges=ranges,
        inertias={
            model.body(body).name: np.sort(model.body_inertia[body])
            for body in range(1, model.nbody)
            if model.body(body).name and model.body_mocapid[body] < 0
        },
    )


def read_pinocchio(path: Path, start: dict[str, float]) -> Facts:
    """Read a URDF file with pinocchio, on a fixed base.

    Args:
        path: The file.
        start: Coordinates of the pose that the centre of mass is computed in; missing ones are zero.
    """
    import pinocchio as pin

    # As the root of a free flyer the base link has a body of its own, so that its mass is counted.
    model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    q, ranges = pin.neutral(model), {}
    for joint in range(2, model.njoints):
        name, nq, nv = model.names[joint], model.joints[joint].nq, model.joints[joint].nv
        at = model.joints[joint].idx_q
        value = start.get(name, 0.0)
        if (nq, nv) == (1, 1):
            low, high = model.lowerPositionLimit[at], model.upperPositionLimit[at]
            ranges[name] = (low, high) if low > -UNLIMITED or high < UNLIMITED else None
            q[at] = value
        elif (nq, nv) == (2, 1):
            ranges[name] = None
            q[at : at + 2] = np.cos(value), np.sin(value)
    mass = pin.computeTotalMass(model)
    com = pin.centerOfMass(model, model.createData(), q) if mass > 0.0 else None
    return Facts(mass, com, None, model.nv - 6, None, ranges)


def read_pybullet(path: Path) -> Facts:
    """Read a URDF file with PyBullet, which tells no centre of mass.

    Two things of its own are taken out: a mass of 1 kg for links without <inertial>, and limits of continuous
    joints.
    """
    import pybullet as p

    massless, continuous = _links_and_joints(path)
    client = p.connect(p.DIRECT)
    try:
        with quiet():
            body = p.loadURDF(str(path), flags=p.URDF_USE_INERTIA_FROM_FILE)
        mass, ranges, dofs = 0.0, {}, 0
        if p.getBodyInfo(body)[0].decode() not in massless:
            mass = p.getDynamicsInfo(body, -1)[0]
        for joint in range(p.getNumJoints(body)):
            record = p.getJointInfo(body, joint)
            name, kind, link = record[1].decode(), record[2], record[12].decode()
            if link not in massless:
                mass += p.getDynamicsInfo(body, joint)[0]
            dofs += {p.JOINT_REVOLUTE: 1, p.JOINT_PRISMATIC: 1, p.JOINT_SPHERICAL: 3, p.JOINT_PLANAR: 3}.get(
                kind, 0
            )
            if kind in (p.JOINT_REVOLUTE, p.JOINT_PRISMATIC):
                low, high = record[8:10]
                free = low > high or (low <= -UNLIMITED and high >= UNLIMITED)
                ranges[name] = None if free or name in continuous else (low, high)
    finally:
        p.disconnect(client)
    return Facts(mass, None, None, dofs, None, ranges)


def _links_and_joints(path: Path) -> tuple[set[str], set[str]]:
    """Names of the links without <inertial> and of the continuous joints of a URDF file."""
    from newtonsim.importers.files.xml import read_document

    root = read_document(path)[0]
    massless = {link.text_of("name", "") for link in root.findall("link") if link.find("inertial") is None}
    return massless, {
        joint.text_of("name", "") for joint in root.findall("joint") if joint.text_of("type") == "continuous"
    }


# -- comparison ----------------------------------------------------------------------------------------------


def differences(ours: Facts, theirs: Facts) -> list[str]:
    """Return what differs, one text each; nothing when both readings agree."""
    found = []
    if abs(ours.mass - theirs.mass) > TOLERANCE * max(theirs.mass, 1.0e-6):
        found.append(f"mass {ours.mass:.6g} instead of {theirs.mass:.6g} kg")
    if ours.com is not None and theirs.com is not None:
        away = float(np.linalg.norm(ours.com - theirs.com))
        if away > TOLERANCE * max(1.0, float(np.linalg.norm(theirs.com))):
            found.append(f"centre of mass {away:.3g} m away")
    for name, text in (("coordinates", "coordinates"), ("dofs", "dofs"), ("actuators", "actuators")):
        mine, other = getattr(ours, name), getattr(theirs, name)
        if mine is not None and other is not None and mine != other:
            found.append(f"{mine} {text} instead of {other}")
    found += _range_differences(ours, theirs)
    return found + _inertia_differences(ours, theirs)


def _range_differences(ours: Facts, theirs: Facts) -> list[str]:
    missing = sorted(theirs.ranges.keys() - ours.ranges.keys())
    found = [f"joints missing: {', '.join(missing[:3])} ({len(missing)})"] if missing else []
    wrong = [
        name
        for name, other in theirs.ranges.items()
        if name in ours.ranges and not _same_range(ours.ranges[name], other)
    ]
    if wrong:
        first = wrong[0]
        found.append(
            f"limits of {len(wrong)} joints, of {first!r} {_text(ours.ranges[first])} instead of "
            f"{_text(theirs.ranges[first])}"
        )
    return found


def _text(limits: tuple[float, float] | None) -> str:
    return "none" if limits is None else f"{limits[0]:.5g} to {limits[1]:.5g}"


def _same_range(mine: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    if mine is None or other is None:
        return mine is other
    return bool(np.allclose(mine, other, rtol=TOLERANCE, atol=TOLERANCE))


def _inertia_differences(ours: Facts, theirs: Facts) -> list[str]:
    worst, name = 0.0, ""
    for body, other in theirs.inertias.items():
        mine = ours.inertias.get(body)
        if mine is None:
            return [f"body missing: {body}"]
        error = float(np.abs(mine - other).max() / max(other.max(), 1.0e-12))
        if error > worst:
            worst, name = error, body
    return [f"inertia of {name!r} by {100.0 * worst:.3g} %"] if worst > TOLERANCE else []
