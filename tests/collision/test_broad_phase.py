"""Which pairs of shapes reach the narrow phase, and what happens when buffers are full."""

import warnings

import numpy as np
import pytest
import trimesh
import warp as wp

from newtonsim import Mesh, ModelBuilder, ShapeFlags
from newtonsim.builder import pairs as pair_rules
from newtonsim.collision.collide import collide
from newtonsim.kinematics import eval_fk


def crowd(seed: int, worlds: int, balls: int = 30) -> ModelBuilder:
    """Balls, boxes and capsules of random groups in a box of 2 m, with static shapes within and outside."""
    rng = np.random.default_rng(seed)

    def pose() -> wp.transform:
        q = rng.normal(size=4)
        return wp.transform(rng.uniform(-1.0, 1.0, 3), q / np.linalg.norm(q))

    world = ModelBuilder()
    for i in range(balls):
        options = {
            "collision_group": int(rng.choice([-1, -1, -1, 1, 2])),
            "has_shape_collision": bool(rng.random() < 0.9),
            "has_ground_collision": bool(rng.random() < 0.5),
        }
        body = world.add_body(origin=pose())
        if i % 3 == 0:
            shape = world.add_shape_box(body, hx=0.3, hy=0.1, hz=0.2, **options)
        elif i % 3 == 1:
            shape = world.add_shape_capsule(body, radius=0.1, half_height=0.2, **options)
        else:
            shape = world.add_shape_sphere(body, radius=0.2, **options)
        if i and rng.random() < 0.3:
            world.shape_collision_filter_pairs.add((int(rng.integers(0, shape)), shape))
    world.add_shape_box(-1, pos=(0.5, 0.0, 0.0), hx=0.4, hy=0.4, hz=0.4)
    main = ModelBuilder()
    main.add_shape_box(-1, pos=(-0.5, 0.0, 0.0), hx=0.4, hy=0.4, hz=0.4)
    main.replicate(world, worlds, separate_collision_group=False)
    main.set_ground_plane(offset=-0.2)
    return main


def found_pairs(model, state, dt: float = 0.0) -> list[set[tuple[int, int]]]:
    """Pairs of shapes that the broad phase lets through, one set per world."""
    contacts = collide(model, state, dt=dt)
    a, b = contacts.pairs.shape0.numpy(), contacts.pairs.shape1.numpy()
    start, count = contacts.pairs.world_start.numpy(), contacts.pairs.world_count.numpy()
    found = []
    for w in range(model.world_count):
        places = range(start[w], start[w] + count[w])
        found.append({(min(a[p], b[p]), max(a[p], b[p])) for p in places})
        assert len(found[-1]) == count[w], "a pair was found twice"
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("worlds", [1, 3])
def test_sweeping_finds_what_listing_finds(device: str, seed: int, worlds: int, monkeypatch):
    builder = crowd(seed, worlds)
    models = [builder.finalize(device)]
    monkeypatch.setattr(pair_rules, "_MOST_LISTED", 0)
    models.append(builder.finalize(device))
    assert models[1].shape_contact_pairs is None
    rng = np.random.default_rng(seed)
    states = [model.state() for model in models]
    # the same buffers serve several configurations: the sweep sorts again each time
    for _ in range(3):
        results = []
        joint_q = rng.uniform(-1.0, 1.0, models[0].joint_coord_count).astype(np.float32)
        rotations = joint_q.reshape(-1, 7)[:, 3:]
        rotations /= np.linalg.norm(rotations, axis=1, keepdims=True)
        for model, state in zip(models, states):
            state.joint_q.assign(joint_q)
            eval_fk(model, state.joint_q, state.joint_qd, None, state)
            results.append(found_pairs(model, state))
        assert results[0] == results[1]
        assert sum(len(found) for found in results[0]) > 20 * worlds


def test_crowd_of_20_000_balls_is_swept(device: str):
    """2e8 pairs are too many to list; neighbours on a line are all that touch."""
    line = ModelBuilder()
    for i in range(20_000):
        pose = wp.transform((0.0, 0.0, 0.19 * i), wp.quat_identity())
        line.add_shape_sphere(line.add_body(origin=pose), radius=0.1)
    model = line.finalize(device)
    contacts = collide(model, model.state())
    assert contacts.rigid_contact_count.numpy()[0] == 19_999
    np.testing.assert_allclose(contacts.rigid_contact_distance.numpy()[:19_999], -0.01, atol=2e-4)


def test_crowd_without_mutual_contact_costs_no_pairs(device: str):
    ball = ModelBuilder()
    ball.add_shape_sphere(ball.add_body(), radius=0.1)
    many = ModelBuilder()
    many.replicate(ball, 3000)
    many.num_envs = 1
    many.shape_flags[:] = [int(ShapeFlags.COLLIDE_GROUND)] * many.shape_count
    assert len(many.finalize(device).shape_contact_pairs) == 0


def overlapping(device: str, balls: int, **room: int):
    """Balls that all overlap each other, in world 1 of 2; world 0 holds two."""
    main = ModelBuilder()
    for count in (2, balls):
        world = ModelBuilder()
        for i in range(count):
            world.add_shape_sphere(
                world.add_body(origin=wp.transform((0.01 * i, 0.0, 0.0), wp.quat_identity())), radius=1.0
            )
        main.add_builder(world)
    model = main.finalize(device)
    for name, value in room.items():
        setattr(model, name, value)
    return model


@pytest.mark.parametrize("listed", [True, False])
def test_long_hulls_side_by_side_on_a_slant_are_no_pair(device: str, listed: bool, monkeypatch):
    """Bounds of two rods at 45 degrees, 0.1 m apart, overlap; then one flies at the other."""
    if not listed:
        monkeypatch.setattr(pair_rules, "_MOST_LISTED", 0)
    corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]) * [0.5, 0.05, 0.05]
    hull = trimesh.convex.convex_hull(corners)
    mesh = Mesh(hull.vertices, hull.faces.reshape(-1))
    builder = ModelBuilder()
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), np.pi / 4)
    for aside in (0.0, 0.2):
        body = builder.add_body(origin=wp.transform((-aside * 0.5**0.5, aside * 0.5**0.5, 0.0), turn))
        builder.add_joint_free(body)
        builder.add_shape_mesh(body, mesh=mesh, density=1000.0)
    model = builder.finalize(device)
    state = model.state()
    assert found_pairs(model, state) == [set()]
    state.body_qd.assign(np.array([[0.0] * 6, [0.0, 0.0, 0.0, 10.0, -10.0, 0.0]], np.float32))
    assert found_pairs(model, state, dt=0.01) == [{(0, 1)}]


def test_full_contact_buffer_is_counted_and_reported_once(device: str):
    model = overlapping(device, 5, rigid_contact_max_per_world=4)
    with pytest.warns(
        RuntimeWarning, match=r"10 contacts \(set Model.rigid_contact_max_per_world\).*world 1"
    ):
        contacts = collide(model, model.state())
    assert contacts.contacts_needed.numpy().tolist() == [1, 10]
    assert contacts.world_count.numpy().tolist() == [1, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collide(model, model.state())


def test_full_pair_buffer_is_counted_and_reported(device: str):
    model = overlapping(device, 5, rigid_pair_max_per_world=3)
    with pytest.warns(RuntimeWarning, match=r"10 pairs of shapes \(set Model.rigid_pair_max_per_world\)"):
        contacts = collide(model, model.state())
    assert contacts.pairs_needed.numpy().tolist() == [1, 10]
    assert contacts.world_count.numpy().tolist() == [1, 3]


def test_room_that_is_asked_for_suffices(device: str):
    model = overlapping(device, 5, rigid_contact_max_per_world=10, rigid_pair_max_per_world=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contacts = collide(model, model.state())
    assert contacts.world_count.numpy().tolist() == [1, 10]
