"""Models with something of everything that files hold."""

import numpy as np
import warp as wp

import newtonsim
from newtonsim.geometry import Heightfield, Mesh
from newtonsim.scene.enums import JointMode

POSE = {"pos": (0.1, 0.2, 0.3), "rot": (0.1825742, 0.3651484, 0.5477226, 0.7302967)}


def tetrahedron() -> Mesh:
    corners = [(0.0, 0.0, 0.0), (0.3, 0.0, 0.0), (0.0, 0.2, 0.0), (0.0, 0.0, 0.4)]
    return Mesh(corners, [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], name="tetra hedron")


def many_shapes(up=(0.0, 0.0, 1.0)) -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=up)
    body = builder.add_body(key="body", origin=wp.transform((0.0, 0.0, 1.0), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.3, key="sphere", **POSE)
    builder.add_shape_box(body, hx=0.1, hy=0.2, hz=0.3, key="box", **POSE)
    builder.add_shape_capsule(body, radius=0.1, half_height=0.2, key="capsule", **POSE)
    builder.add_shape_cylinder(body, radius=0.1, half_height=0.3, key="cylinder", up_axis=0, **POSE)
    builder.add_shape_mesh(body, mesh=tetrahedron(), scale=(1.0, -2.0, 3.0), key="mesh", **POSE)
    heights = np.arange(6.0).reshape(2, 3) ** 2 - 3.0
    field = Heightfield(heights, (2.0, 3.0))
    builder.add_shape_heightfield(-1, heightfield=field, scale=(1.0, 0.5, 2.0), key="field", **POSE)
    return builder


def crowd(ground: bool = True) -> newtonsim.ModelBuilder:
    """Overlapping balls with groups, flags and filters of every sort."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parent = -1
    for number in range(9):
        body = builder.add_body(key=f"body{number}")
        options = {"collision_group": {3: 1, 4: 1, 5: 2}.get(number, -1)}
        options["has_ground_collision"] = number != 6
        options["has_shape_collision"] = number != 7
        builder.add_shape_sphere(body, radius=0.1, key=f"ball{number}", **options)
        if number < 3:
            builder.add_joint_revolute(
                parent, body, key=f"joint{number}", collision_filter_parent=number != 2
            )
            parent = body
    builder.shape_collision_filter_pairs.add((5, 8))
    builder.shape_collision_filter_pairs.add((0, 8))
    if ground:
        builder.set_ground_plane()
    return builder


def touching(model) -> set[frozenset[str]]:
    pairs = [*model.shape_contact_pairs.numpy().tolist(), *model.shape_ground_contact_pairs.numpy().tolist()]
    return {frozenset(model.shape_key[shape] for shape in pair) for pair in pairs}


def driven() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parent = -1
    modes = (JointMode.TARGET_POSITION, JointMode.TARGET_VELOCITY, JointMode.FORCE)
    for number, mode in enumerate(modes):
        body = builder.add_body(mass=1.0, I_m=np.eye(3), key=f"link{number}")
        axis = newtonsim.JointAxis(
            (0.0, 0.6, 0.8),
            limit_lower=-1.0 - number,
            limit_upper=0.5,
            target_ke=30.0 + number,
            target_kd=4.0 if mode == JointMode.TARGET_POSITION else 0.0,
            mode=mode,
            action=0.25,
            damping=0.1,
            stiffness=2.0,
            spring_ref=0.3,
            friction=0.05,
            effort_limit=7.0 + number,
            effort_lower=-2.0 if number == 1 else -np.inf,
            armature=0.01 * number,
        )
        builder.add_joint_revolute(parent, body, axis=axis, key=f"joint{number}")
        parent = body
    return builder


def looped() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for number in range(4):
        body = builder.add_body(mass=1.0, I_m=np.eye(3), key=f"link{number}")
        frame = wp.transform((0.5 * number, 0.0, 0.0), wp.quat_identity())
        builder.add_joint_revolute(-1, body, frame, axis=(0.0, 1.0, 0.0), key=f"joint{number}")
    builder.add_constraint_connect(0, 1, (0.25, 0.0, 0.1), (-0.2, 0.0, 0.1), key="touch", recovery_time=0.05)
    pose, soft = wp.transform((0.5, 0.1, 0.0), wp.quat_identity()), (0.9, 0.95, 0.01, 0.5, 2.0)
    builder.add_constraint_weld(1, 2, pose, key="glue", solref=(0.1, 0.5), solimp=soft, torque_scale=0.3)
    builder.add_constraint_coupling(3, 0, (0.1, 2.0, -0.5), key="gear", enabled=False)
    return builder
