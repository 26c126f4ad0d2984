"""Robots in MuJoCo, as several benchmarks use them."""

import os

import numpy as np
from tasks.harness import DT
from tasks.robots import Task
from tasks.work import CONVERGED, Work


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


def mujoco_work(model, iterations: int) -> Work:
    """Return the work of a step of a model whose solver took so many iterations at most."""
    import mujoco

    pairs = mujoco_pairs(model)
    shapes = []
    for g in np.unique(pairs):
        kind = mujoco.mjtGeom(model.geom_type[g]).name.removeprefix("mjGEOM_").lower()
        count = {"plane": 0, "sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
        shapes.append((kind, tuple(model.geom_size[g, :count].tolist())))
    evaluations = 4 if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4 else 1
    stop = CONVERGED if iterations < model.opt.iterations else f"with {model.opt.iterations} iterations"
    return Work(len(pairs), tuple(shapes), float(model.opt.timestep), evaluations, stop)


def mujoco_pairs(model) -> np.ndarray:
    """Return the pairs of geoms that may collide (n, 2).

    All pairs whose contact bits match, on bodies that are neither welded together nor neighbours in the tree;
    the world is nobody's neighbour. Source: MuJoCo's documentation, "Computation", collision detection.
    """
    body, above = model.body_weldid[model.geom_bodyid], model.body_weldid[model.body_parentid]
    touch = (model.geom_contype[:, None] & model.geom_conaffinity) != 0
    apart = body[:, None] != body
    near = (above[body][:, None] == body) | (above[body] == body[:, None])
    apart &= ~near | (body[:, None] == 0) | (body == 0)
    return np.argwhere(np.triu((touch | touch.T) & apart))


def mujoco_pose(pose: np.ndarray) -> np.ndarray:
    """Return MuJoCo's qpos of a pose: its quaternions are wxyz."""
    return np.concatenate([pose[:3], pose[6:7], pose[3:6], pose[7:]])


def mujoco_from_urdf(path: str, is_free: bool, gains: tuple[float, float], touches_itself: bool = False):
    """Compile a URDF robot with MuJoCo's own reader, above a ground.

    Args:
        path: The file.
        is_free: Whether the root link gets a free joint.
        gains: Stiffness and damping [N m/rad, N m s/rad] of a drive of each hinge and slide.
        touches_itself: Whether its links touch each other, but for neighbours.
    """
    import mujoco

    spec = mujoco.MjSpec.from_file(path)
    spec.compiler.discardvisual = True
    spec.compiler.fusestatic = False
    for mesh in spec.meshes:  # MuJoCo knows no packages; here, they are the folder of the file
        mesh.file = mesh.file.replace("package:/", os.path.dirname(path))
    for geom in spec.geoms:
        geom.contype, geom.conaffinity = 1, int(touches_itself)  # else the ground only
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    if is_free:
        spec.worldbody.first_body().add_freejoint()
    stiffness, damping = gains
    driven = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    for joint in [j for j in spec.joints if j.type in driven]:
        actuator = spec.add_actuator(trntype=mujoco.mjtTrn.mjTRN_JOINT, target=joint.name)
        actuator.set_to_position(kp=stiffness, kv=damping)
    return spec.compile()
