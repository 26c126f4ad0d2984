"""Robots in MuJoCo, as several benchmarks use them."""

import numpy as np
from tasks.harness import DT
from tasks.robots import Task


def mujoco_model(task: Task, integrator: str | None = None, solver: str | None = None):
    """Load the robot into MuJoCo with our time step and, if given, another integrator and solver."""
    import mujoco

    spec = mujoco.MjSpec.from_file(task.path)
    if not task.has_ground:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    model = spec.compile()
    model.opt.timestep = DT
    if integrator is not None:
        model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
    if solver is not None:
        model.opt.solver = getattr(mujoco.mjtSolver, f"mjSOL_{solver}")
    return model


def describe_options(model) -> str:
    """Name MuJoCo's integrator and constraint solver."""
    import mujoco

    integrator = mujoco.mjtIntegrator(model.opt.integrator).name.removeprefix("mjINT_")
    return f"{integrator}, {mujoco.mjtSolver(model.opt.solver).name.removeprefix('mjSOL_')}"


def mujoco_pose(pose: np.ndarray) -> np.ndarray:
    """Return MuJoCo's qpos of a pose: its quaternions are wxyz."""
    return np.concatenate([pose[:3], pose[6:7], pose[3:6], pose[7:]])


def mujoco_from_urdf(path: str, is_free: bool, gains: tuple[float, float]):
    """Compile a URDF robot with MuJoCo's own reader, above a ground.

    Args:
        path: The file.
        is_free: Whether the root link gets a free joint.
        gains: Stiffness and damping [N m/rad, N m s/rad] of a drive of each hinge.
    """
    import mujoco

    spec = mujoco.MjSpec.from_file(path)
    spec.compiler.discardvisual = True
    spec.compiler.fusestatic = False
    for geom in spec.geoms:
        geom.contype, geom.conaffinity = 1, 0  # touches the ground, not itself
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    if is_free:
        spec.worldbody.first_body().add_freejoint()
    stiffness, damping = gains
    for joint in [j for j in spec.joints if j.type == mujoco.mjtJoint.mjJNT_HINGE]:
        actuator = spec.add_actuator(trntype=mujoco.mjtTrn.mjTRN_JOINT, target=joint.name)
        actuator.set_to_position(kp=stiffness, kv=damping)
    return spec.compile()
