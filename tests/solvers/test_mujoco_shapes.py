"""Shapes and collision rules of models as MuJoCo sees them."""

import itertools

import mujoco
import numpy as np
import pytest
import trimesh
import warp as wp

from newtonsim import SDF, Heightfield, Mesh, ModelBuilder, ModelError, UnsupportedElementWarning
from newtonsim.geometry.transforms import quat_rotate, transform_inverse, transform_point
from newtonsim.solvers import MuJoCoSolver

POSE = wp.transform((0.1, -0.2, 0.3), wp.normalize(wp.quat(0.3, -0.5, 0.2, 0.8)))


def wedge() -> Mesh:
    points = [(0, 0, 0), (0.5, 0, 0), (0, 0.4, 0), (0, 0, 0.3), (0.5, 0, 0.3), (0, 0.4, 0.3)]
    hull = trimesh.convex.convex_hull(np.array(points))
    return Mesh(hull.vertices, hull.faces)


def inside(kind: str, p: np.ndarray) -> np.ndarray:
    """Whether points in the shape's frame (n, 3) are in the solid, as the definition of the shape says."""
    x, y, z = p.T
    if kind == "sphere":
        return np.linalg.norm(p, axis=1) < 0.3
    if kind == "box":
        return (np.abs(p) < (0.2, 0.3, 0.1)).all(axis=1)
    if kind == "ellipsoid":
        return (np.square(p / (0.2, 0.3, 0.1)).sum(axis=1)) < 1.0
    if kind == "capsule":
        return np.hypot(np.hypot(x, z), y - np.clip(y, -0.2, 0.2)) < 0.1
    if kind == "cylinder":
        return (np.hypot(x, z) < 0.2) & (np.abs(y) < 0.3)
    if kind == "cone":
        return (np.hypot(x, z) < 0.2 * (0.3 - y) / 0.6) & (y > -0.3)
    if kind == "mesh":  # the wedge, its x doubled and mirrored
        return (x < 0.0) & (y > 0.0) & (z > 0.0) & (z < 0.3) & (-x / 1.0 + y / 0.4 < 1.0)
    if kind == "hfield":
        return (y < 2.0 * (0.1 + 0.2 * x - 0.1 * z)) & (np.abs(x) < 0.5) & (np.abs(z) < 0.4)
    return y < 0.0


def add_shape(builder: ModelBuilder, kind: str, pose: wp.transform) -> None:
    place = {"body": -1, "pos": pose.p, "rot": pose.q, "key": kind}
    if kind == "sphere":
        builder.add_shape_sphere(radius=0.3, **place)
    elif kind in ("box", "ellipsoid"):
        names = ("hx", "hy", "hz") if kind == "box" else "abc"
        getattr(builder, f"add_shape_{kind}")(**dict(zip(names, (0.2, 0.3, 0.1))), **place)
    elif kind in ("capsule", "cylinder", "cone"):
        size = (0.1, 0.2) if kind == "capsule" else (0.2, 0.3)
        getattr(builder, f"add_shape_{kind}")(radius=size[0], half_height=size[1], up_axis=1, **place)
    elif kind == "mesh":
        builder.add_shape_mesh(mesh=wedge(), scale=(-2.0, 1.0, 1.0), **place)
    elif kind == "hfield":
        z, x = np.meshgrid(np.linspace(-0.4, 0.4, 3), np.linspace(-0.5, 0.5, 6), indexing="ij")
        field = Heightfield(0.1 + 0.2 * x - 0.1 * z, (1.0, 0.8))
        builder.add_shape_heightfield(heightfield=field, scale=(1.0, 2.0, 1.0), **place)
    else:
        builder.add_shape_plane(width=0.0, length=0.0, **place)


KINDS = ("sphere", "box", "ellipsoid", "capsule", "cylinder", "cone", "mesh", "hfield", "plane")


@pytest.mark.parametrize("kind", KINDS)
def test_surface_is_where_the_shape_is(kind):
    """Rays of MuJoCo end where the definition of the shape begins."""
    builder = ModelBuilder(up_vector=(0, 0, 1))
    add_shape(builder, kind, POSE)
    solver = MuJoCoSolver(builder.finalize(device="cpu"), use_mujoco=True)
    mujoco.mj_forward(solver.mj_model, solver.mj_data)
    rng = np.random.default_rng(1)
    target = {"mesh": (-0.3, 0.1, 0.15), "cone": (0.0, -0.1, 0.0), "hfield": (0.1, 0.15, 0.0)}.get(
        kind, (0, 0, 0)
    )
    pose = np.array(POSE)
    hits = 0
    for direction in rng.standard_normal((40, 3)):
        direction /= np.linalg.norm(direction)
        if kind in ("hfield", "plane"):
            direction = quat_rotate(pose[3:], [0.4 * direction[0], 1.0, 0.4 * direction[2]])
            direction /= np.linalg.norm(direction)
        start = transform_point(pose, target) + 2.0 * direction
        geom = np.zeros(1, np.int32)
        distance = mujoco.mj_ray(solver.mj_model, solver.mj_data, start, -direction, None, 1, -1, geom)
        assert distance > 0.0
        ends = start - direction * (distance + np.array([[-2e-3], [2e-3]]))
        outside, within = inside(kind, transform_point(transform_inverse(pose), ends))
        exact = kind != "cone" or abs(direction @ quat_rotate(pose[3:], [0, 1, 0])) > 0.8
        if exact:  # the cone's polygon lies within the circle
            assert within
            hits += 1
        assert not outside
    assert hits >= (3 if kind == "cone" else 40)


def test_materials_become_contact_parameters():
    builder = ModelBuilder()
    body = builder.add_body()
    builder.add_shape_sphere(body, mu=0.7, thickness=0.02)
    builder.add_shape_sphere(body, mu=0.5, thickness=0.0)
    builder.shape_mu_torsion[1], builder.shape_mu_rolling[1] = 0.03, 0.004
    builder.add_shape_sphere(body, mu=0.0, thickness=0.0)
    builder.add_shape_sphere(body, has_shape_collision=False, has_ground_collision=False)
    model = builder.finalize(device="cpu")
    mj = MuJoCoSolver(model, use_mujoco=True, geom_solref=(0.03, 0.9)).mj_model
    assert mj.ngeom == 3
    np.testing.assert_allclose(
        mj.geom_friction, [(0.7, 0.05, 0.05), (0.5, 0.03, 0.004), (0, 0.05, 0.05)], rtol=1e-6
    )
    assert mj.geom_condim.tolist() == [3, 6, 1]
    np.testing.assert_allclose(mj.geom_margin, (0.02, 0.0, 0.0), rtol=1e-6)
    np.testing.assert_allclose(mj.geom_solref, [(0.03, 0.9)] * 3)
    assert MuJoCoSolver(model, use_mujoco=True, skip_visual_only_geoms=False).mj_model.ngeom == 4
    assert MuJoCoSolver(model, use_mujoco=True, disable_contacts=True).mj_model.opt.disableflags


def crowd(rng: np.random.Generator) -> ModelBuilder:
    """Spheres at one place on bodies in trees, with groups, flags and filters at random."""
    builder = ModelBuilder(up_vector=(0, 0, 1))
    for world in range(3):
        part = ModelBuilder(up_vector=(0, 0, 1))
        for body in range(6):
            part.add_body(mass=1.0, I_m=0.1 * np.eye(3))
            for _ in range(2):
                meets = rng.random(2) < 0.8
                part.add_shape_sphere(
                    body,
                    radius=0.5,
                    density=0.0,
                    collision_group=int(rng.choice([-1, 1, 2])),
                    has_shape_collision=bool(meets[0]),
                    has_ground_collision=bool(meets[1]),
                )
            parent = int(rng.integers(-1, body)) if body else -1
            add = part.add_joint_fixed if rng.random() < 0.3 else part.add_joint_revolute
            add(parent, body, collision_filter_parent=bool(rng.random() < 0.6))
        part.add_shape_box(-1, hx=0.1, hy=0.1, hz=0.1)
        for pair in itertools.combinations(range(12), 2):
            if rng.random() < 0.15:
                part.shape_collision_filter_pairs.add(pair)
        builder.add_builder(part, separate_collision_group=bool(world % 2))
    builder.add_shape_sphere(-1, radius=0.2)
    builder.set_ground_plane()
    return builder


@pytest.mark.parametrize("seed", range(4))
def test_the_same_pairs_touch(seed):
    model = crowd(np.random.default_rng(seed)).finalize(device="cpu")
    wanted = {tuple(pair) for pair in model.shape_contact_pairs.numpy().tolist()}
    wanted |= {tuple(sorted(pair)) for pair in model.shape_ground_contact_pairs.numpy().tolist()}
    solver = MuJoCoSolver(model, use_mujoco=True, separate_envs_to_worlds=False)
    mujoco.mj_forward(solver.mj_model, solver.mj_data)
    shape_of = {int(geom): shape for shape, geom in enumerate(solver.conversion.shape_geom) if geom >= 0}
    found = {tuple(sorted((shape_of[a], shape_of[b]))) for a, b in solver.mj_data.contact.geom.tolist()}
    assert found == wanted
    free = MuJoCoSolver(
        model, use_mujoco=True, separate_envs_to_worlds=False, register_collision_groups=False
    )
    mujoco.mj_forward(free.mj_model, free.mj_data)
    assert free.mj_model.nexclude == 0
    assert free.mj_data.ncon > len(wanted)


def test_more_groups_than_bits():
    builder = ModelBuilder()
    for group in range(40):
        builder.add_shape_sphere(builder.add_body(), collision_group=group)
    with pytest.raises(ModelError, match="40 groups"):
        MuJoCoSolver(builder.finalize(device="cpu"), use_mujoco=True)


def test_what_mujoco_has_no_shape_for():
    bowl = Mesh([(0, 0, 0), (1, 0, 1), (-1, 1, 1), (-1, -1, 1)], [0, 1, 2, 0, 2, 3, 0, 3, 1])
    builder = ModelBuilder()
    builder.add_shape_mesh(-1, mesh=bowl, key="bowl")
    with pytest.warns(UnsupportedElementWarning, match=r"'bowl'.*convex hull"):
        MuJoCoSolver(builder.finalize(device="cpu"), use_mujoco=True)
    builder.add_shape_sdf(-1, sdf=SDF.from_mesh(wedge(), voxel_size=0.05), key="field")
    with pytest.raises(ModelError, match=r"'field'.*SDF"), pytest.warns(UnsupportedElementWarning):
        MuJoCoSolver(builder.finalize(device="cpu"), use_mujoco=True)
