"""Lists of a builder that keep copies packed: they must behave as the lists that they stand for."""

import copy

import numpy as np
import pytest
import warp as wp
from core.test_worlds_and_copies import rich_builder

from newtonsim import Mesh, ModelBuilder
from newtonsim.builder.worlds import grid_offsets
from newtonsim.collision.plan import collision_plan_of
from newtonsim.scene.arrays import CONTROL_ARRAYS, MODEL_ARRAYS, SPECS
from newtonsim.scene.columns import Column, PairSet, Tiles, distinct, distinct_rows, to_array


def column_and_list(rng: np.random.Generator) -> tuple[Column, list]:
    """The same numbers as a column of lists, arrays and tiles, and as a list."""
    column, plain = Column(SPECS["body_mass"]), []
    for kind in rng.integers(0, 3, rng.integers(0, 6)):
        numbers = rng.integers(0, 50, rng.integers(0, 5)).astype(float)
        if kind == 0:
            column.extend(numbers.tolist())
            plain += numbers.tolist()
        elif kind == 1:
            column.append_block(numbers)
            plain += numbers.tolist()
        else:
            column.append_block(Tiles(numbers.tolist(), 3))
            plain += numbers.tolist() * 3
    return column, plain


def act(target: Column | list, rng: np.random.Generator):
    """Do one random thing that lists can do; returns what it gives, or the error."""
    place, end, number = (int(n) for n in rng.integers(-25, 25, 3))
    actions = (
        lambda: target[place],
        lambda: target[place:end],
        lambda: target[place : end : rng.choice([-2, -1, 2])],
        lambda: target.__setitem__(place, float(number)),
        lambda: target.__setitem__(slice(place, end), [1.0, 2.0]),
        lambda: target.__setitem__(slice(place, None), [3.0] * 4),
        lambda: target.__delitem__(place),
        lambda: target.__delitem__(slice(place, end)),
        lambda: target.append(float(number)),
        lambda: target.extend([float(number)] * 2),
        lambda: target.insert(place, 5.0),
        lambda: target.pop(),
        lambda: target.index(float(number)),
        lambda: float(number) in target,
        lambda: target + [1.0],  # noqa: RUF005
        lambda: [1.0] + target,  # noqa: RUF005
        lambda: target * 2,
        lambda: target.remove(float(number)),
        lambda: target.sort(),
        lambda: list(reversed(target)),
        lambda: len(target),
    )
    try:
        return actions[rng.integers(len(actions))]()
    except (IndexError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("seed", range(150))
def test_a_column_behaves_as_a_list(seed):
    column, plain = column_and_list(np.random.default_rng(seed))
    before = column.copy()
    np.testing.assert_array_equal(np.array(column), np.array(plain))
    np.testing.assert_array_equal(to_array(SPECS["body_mass"], column), np.array(plain, np.float32))
    original = list(plain)
    for step in range(8):
        results = [act(target, np.random.default_rng((seed, step))) for target in (column, plain)]
        assert results[0] == results[1]
        assert len(column) == len(plain)
    assert column == plain
    assert not column != plain  # noqa: SIM202
    assert before == original  # changes do not reach a copy


def test_a_set_of_pairs_behaves_as_a_set():
    pairs = PairSet([(0, 1)])
    pairs.append_block(np.array([[2, 3], [4, 5], [0, 1]]))
    assert {tuple(p) for p in pairs.array().tolist()} == {(0, 1), (2, 3), (4, 5)}
    twin = pairs.copy()
    assert pairs == {(0, 1), (2, 3), (4, 5)}
    assert (2, 3) in pairs
    assert len(pairs) == 3
    pairs.discard((2, 3))
    pairs |= {(6, 7)}
    assert {(0, 1), (4, 5), (6, 7)} == pairs
    assert twin == {(0, 1), (2, 3), (4, 5)}


def test_distinct_objects_are_told_by_identity():
    a, b = [1], [1]
    column = Column(SPECS["shape_geo_src"], [None, a])
    column.append_block(Tiles([b, a], 2))
    objects, place = distinct(column)
    assert [objects[i] is x for i, x in zip(place, [None, a, b, a, b, a])] == [True] * 6
    assert len(objects) == 3


def every_array(model) -> dict[str, np.ndarray]:
    """All arrays of a model by name, those in structs included."""
    found = {}
    for holder in (model, model.shape_materials, model.shape_geo):
        found |= {name: value.numpy() for name, value in vars(holder).items() if isinstance(value, wp.array)}
    return found


def test_a_model_of_copies_equals_that_of_a_loop():
    """Models from blocks, from a loop, and from lists of which every item has been looked at."""
    blocks, loop = ModelBuilder(), ModelBuilder()
    env = rich_builder()
    blocks.replicate(env, 4, spacing=(2.0, 0.0, 3.0))
    for offset in grid_offsets(4, (2.0, 0.0, 3.0)):
        loop.add_builder(env, xform=wp.transform(offset, wp.quat_identity()))
    unpacked = copy.deepcopy(blocks)
    for spec in MODEL_ARRAYS:
        setattr(unpacked, spec.name, list(getattr(unpacked, spec.name)))
    unpacked.shape_collision_filter_pairs = set(unpacked.shape_collision_filter_pairs)
    for builder in (blocks, loop, unpacked):
        builder.add_shape_box(-1, hx=0.3)
        builder.set_ground_plane()
    models = [builder.finalize("cpu") for builder in (blocks, loop, unpacked)]
    arrays = every_array(models[0])
    assert len(arrays) > len(CONTROL_ARRAYS) + 60
    for other in models[1:]:
        theirs = every_array(other)
        assert arrays.keys() == theirs.keys()
        for name, values in arrays.items():
            np.testing.assert_array_equal(values, theirs[name], err_msg=name)
        for name in ("body_key", "shape_key", "joint_key", "shape_collision_filter_pairs", "body_shapes"):
            assert getattr(models[0], name) == getattr(other, name), name
        assert models[0].shape_collision_group_map == other.shape_collision_group_map


def test_finalize_leaves_copies_packed():
    """Items for thousands of worlds would take longer to make than the model."""
    builder = ModelBuilder()
    builder.replicate(rich_builder(), 50)
    obstacle = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_shape_box(obstacle, hx=0.2)
    builder.body_world[obstacle] = 3
    builder.set_ground_plane()
    builder.finalize("cpu")
    for name in ("joint_X_c", "shape_key", "joint_q", "shape_material_mu", "shape_body"):
        assert any(not isinstance(part, list) for part in getattr(builder, name).parts()), name


def test_a_copy_may_be_edited_and_stays_apart_from_its_source():
    env = rich_builder()
    builder = ModelBuilder()
    builder.replicate(env, 3)
    env.shape_transform[0][0] = 77.0
    env.shape_material_mu[0] = 7.0
    builder.shape_transform[env.shape_count][1] = 5.0
    builder.shape_material_mu[2 * env.shape_count] = 0.25
    builder.joint_armature[:] = [0.5] * builder.joint_dof_count
    model = builder.finalize("cpu")
    place = model.shape_transform.numpy()
    assert place[0, 0] != 77.0
    assert place[[0, env.shape_count, 2 * env.shape_count], 1].tolist() == [place[0, 1], 5.0, place[0, 1]]
    mu = model.shape_materials.mu.numpy()
    assert mu[2 * env.shape_count] == 0.25
    assert mu[0] == mu[env.shape_count] != 0.25
    np.testing.assert_array_equal(model.joint_armature.numpy(), 0.5)


def test_loose_bodies_get_the_joints_that_one_would_give_them():
    def scene(explicit: bool) -> ModelBuilder:
        builder = ModelBuilder()
        arm = builder.add_body(mass=1.0, I_m=np.eye(3))
        builder.add_joint_revolute(-1, arm)
        builder.keyframes.append({"name": "k", "joint_q": [0.3], "joint_qd": [0.1], "joint_act": None})
        rng = np.random.default_rng(0)
        bodies = []
        for i in range(5):
            pose = wp.transform(rng.normal(size=3), wp.normalize(wp.quat(*rng.normal(size=4))))
            bodies.append(builder.add_body(pose, mass=1.0, I_m=np.eye(3), key=f"b{i}"))
            builder.body_qd[bodies[-1]] = wp.spatial_vector(*rng.normal(size=6))
        for body in bodies if explicit else []:
            builder.add_joint_free(body, key=f"b{body - 1}_free")
        return builder

    implicit, explicit = (scene(flag).finalize("cpu") for flag in (False, True))
    theirs = every_array(explicit)
    for name, values in every_array(implicit).items():
        if name != "articulation_start":
            np.testing.assert_array_equal(values, theirs[name], err_msg=name)
    assert implicit.joint_key == explicit.joint_key
    assert implicit.keyframes[0]["joint_q"] == [0.3, *implicit.joint_q.numpy()[1:].tolist()]
    assert len(implicit.keyframes[0]["joint_qd"]) == implicit.joint_dof_count


def test_meshes_that_are_only_seen_get_no_hull():
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
    mesh = Mesh(corners, [0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2])
    builder = ModelBuilder()
    for collides in (False, True):
        body = builder.add_body(mass=1.0, I_m=np.eye(3))
        builder.add_shape_mesh(
            body, mesh=mesh, density=0.0, has_shape_collision=collides, has_ground_collision=False
        )
    assert collision_plan_of(builder.finalize("cpu")).shape.hull.numpy().tolist() == [-1, 0]


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (200, 2), (300, 5)])
def test_distinct_rows_are_those_of_numpy(shape: tuple[int, int]):
    rows = np.random.default_rng(3).integers(-1, 2, shape) * np.array(0.5)
    rows[::7] *= -0.0  # both zeros are one number
    _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    found = distinct_rows(rows)
    np.testing.assert_array_equal(found[0], first)
    np.testing.assert_array_equal(found[1], number.reshape(-1))
