"""Which shapes may collide, against a plain double loop over the rules."""

import itertools

import numpy as np
import pytest

from newtonsim import JointType, ModelBuilder, ShapeFlags


def random_scene(seed: int, worlds: int) -> ModelBuilder:
    """Chains with shapes of random groups and flags, static shapes inside and outside the worlds."""
    rng = np.random.default_rng(seed)
    env = ModelBuilder()
    previous = -1
    for i in range(6):
        body = env.add_body(mass=1.0, I_m=np.eye(3), key=f"b{i}")
        if i != 4:  # body 4 starts a tree of its own
            kind = env.add_joint_fixed if i in (0, 3) else env.add_joint_revolute
            kind(previous, body, collision_filter_parent=bool(i % 2))
        previous = body
    for _ in range(9):
        shape = env.add_shape_sphere(
            int(rng.integers(-1, 6)),
            density=0.0,
            collision_group=int(rng.choice([-1, -1, 1, 2])),
            has_shape_collision=bool(rng.random() < 0.8),
            has_ground_collision=bool(rng.random() < 0.5),
        )
        if rng.random() < 0.4 and shape:
            env.shape_collision_filter_pairs.add((int(rng.integers(0, shape)), shape))
    main = ModelBuilder()
    main.keep_overlaps = True  # all shapes are at one place
    main.add_shape_box(-1)
    main.add_shape_box(main.add_body(key="kinematic"))
    main.body_mass[0] = 0.0
    if worlds:
        main.replicate(env, worlds, separate_collision_group=False)
    else:
        main.add_builder(env, update_num_env_count=False, separate_collision_group=False)
    main.add_shape_sphere(-1, has_shape_collision=False)
    return main


def welded_to(builder, body: int) -> int:
    """Topmost body that fixed joints connect a body to, -1 if it cannot move."""
    while body >= 0:
        inbound = [j for j, child in enumerate(builder["child"]) if child == body]
        if not inbound:
            return -1
        if builder["type"][inbound[0]] != JointType.FIXED:
            return body
        body = builder["parent"][inbound[0]]
    return -1


def brute_force(builder: ModelBuilder, model) -> set[tuple[int, int]]:
    tree = {
        "child": model.joint_child.numpy().tolist(),
        "parent": model.joint_parent.numpy().tolist(),
        "type": model.joint_type.numpy().tolist(),
    }
    body, world = model.shape_body.numpy().tolist(), model.shape_world.numpy().tolist()
    flags, group = model.shape_flags.numpy().tolist(), model.shape_collision_group
    rigid = [welded_to(tree, b) for b in body]
    filtered = set(builder.shape_collision_filter_pairs)
    for child, parent, use in zip(
        builder.joint_child, builder.joint_parent, builder.joint_collision_filter_parent
    ):
        if use and parent >= 0:
            for a, b in itertools.product(range(len(body)), repeat=2):
                if body[a] == child and body[b] == parent:
                    filtered.add((min(a, b), max(a, b)))
    pairs = set()
    for a, b in itertools.combinations(range(builder.shape_count), 2):
        both = flags[a] & flags[b] & ShapeFlags.COLLIDE_SHAPES
        meet = world[a] == world[b] or -1 in (world[a], world[b])
        grouped = group[a] == group[b] or -1 in (group[a], group[b])
        if both and meet and grouped and rigid[a] != rigid[b] and (a, b) not in filtered:
            pairs.add((a, b))
    return pairs


@pytest.mark.parametrize("worlds", [0, 1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_match_the_rules(seed, worlds):
    builder = random_scene(seed, worlds)
    model = builder.finalize(device="cpu")
    pairs = model.shape_contact_pairs.numpy()
    assert {tuple(p) for p in pairs.tolist()} == brute_force(builder, model)
    assert len(pairs) == model.shape_contact_pair_count
    world = model.shape_world.numpy()[pairs].max(axis=1)
    assert np.all(np.diff(world) >= 0)


def test_worlds_of_different_size_do_not_mix():
    main = ModelBuilder()
    for count in (1, 3, 2, 3):
        env = ModelBuilder()
        for _ in range(count):
            env.add_shape_sphere(env.add_body(), radius=0.1)
        main.add_builder(env)
    model = main.finalize(device="cpu")
    pairs = model.shape_contact_pairs.numpy().tolist()
    assert pairs == [[1, 2], [1, 3], [2, 3], [4, 5], [6, 7], [6, 8], [7, 8]]


def test_ground_meets_what_moves_and_wants_to():
    builder = ModelBuilder()
    body = builder.add_body()
    yes = builder.add_shape_sphere(body, radius=0.1)
    builder.add_shape_sphere(body, radius=0.1, has_ground_collision=False)
    builder.add_shape_sphere(-1, radius=0.1)
    bolted = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_fixed(-1, bolted)
    builder.add_shape_sphere(bolted, radius=0.1)
    builder.set_ground_plane(offset=0.5, mu=0.7)
    model = builder.finalize(device="cpu")
    assert model.shape_count == builder.shape_count + 1
    ground = model.shape_count - 1
    assert model.shape_ground_contact_pairs.numpy().tolist() == [[yes, ground]]
    assert not np.any(model.shape_contact_pairs.numpy() == ground)
    assert model.shape_materials.mu.numpy()[ground] == pytest.approx(0.7)
    np.testing.assert_allclose(model.ground_plane.numpy(), (0, 1, 0, -0.5))
    np.testing.assert_allclose(model.shape_transform.numpy()[ground, :3], (0, 0.5, 0), atol=1e-6)
    assert (model.shape_key[ground], model.shape_body.numpy()[ground]) == ("ground_plane", -1)


def test_no_ground_unless_asked_for():
    builder = ModelBuilder()
    builder.add_shape_sphere(builder.add_body())
    model = builder.finalize(device="cpu")
    assert not model.ground
    assert model.shape_count == 1
    assert model.shape_ground_contact_pairs.shape == (0, 2)


def test_shapes_added_after_the_joint_are_filtered_too():
    builder = ModelBuilder()
    a, b = builder.add_body(mass=1.0, I_m=np.eye(3)), builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_revolute(a, b)
    for body in (a, b, a, b):
        builder.add_shape_sphere(body, density=0.0)
    model = builder.finalize(device="cpu")
    assert model.shape_contact_pair_count == 0
    assert model.shape_collision_filter_pairs == {(0, 1), (0, 3), (1, 2), (2, 3)}


def test_pairs_follow_edits_of_the_builder():
    builder = ModelBuilder()
    for _ in range(2):
        builder.add_shape_sphere(builder.add_body())
    model = builder.finalize(device="cpu")
    assert model.shape_contact_pair_count == 1
    builder.shape_collision_group[:] = [1, 2]
    builder.find_shape_contact_pairs(model)
    assert model.shape_contact_pair_count == 0


def test_filtered_pairs_do_not_make_a_world_crowded():
    """A robot of 80 parts that pass through each other has few pairs; without the filters it has 3160."""

    def robot(filtered: bool):
        builder = ModelBuilder()
        for _ in range(80):
            body = builder.add_body(mass=1.0, I_m=np.eye(3))
            builder.add_joint_free(body)
            builder.add_shape_sphere(body)
        builder.add_shape_box(-1)
        if filtered:
            builder.shape_collision_filter_pairs |= set(itertools.combinations(range(80), 2))
        return builder.finalize("cpu")

    assert robot(filtered=False).shape_contact_pairs is None
    pairs = robot(filtered=True).shape_contact_pairs.numpy().reshape(-1, 2)
    assert {tuple(pair) for pair in pairs.tolist()} == {(shape, 80) for shape in range(80)}
