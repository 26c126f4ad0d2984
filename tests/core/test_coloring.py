"""Colourings are valid, even and as small as the graph allows."""

import itertools

import numpy as np
import pytest

from newtonsim import ColoringAlgorithm, ModelBuilder, ModelError
from newtonsim.scene.coloring import color_springs, element_graph

ALGORITHMS = (ColoringAlgorithm.MCS, ColoringAlgorithm.GREEDY)


def assert_valid(groups, count: int, edges: np.ndarray) -> np.ndarray:
    assert sorted(np.concatenate(groups).tolist()) == list(range(count))
    color = np.empty(count, int)
    for number, group in enumerate(groups):
        color[group] = number
    assert np.all(color[edges[:, 0]] != color[edges[:, 1]])
    return color


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("bending", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_element_has_two_particles_of_one_color(algorithm, bending, balance):
    builder = ModelBuilder()
    builder.add_cloth_grid((0, 0, 0), None, (0, 0, 0), 12, 9, 1.0, 1.0, 1.0)
    builder.color(include_bending=bending, balance_colors=balance, coloring_algorithm=algorithm)
    edges = [pair for tri in builder.tri_indices for pair in itertools.combinations(tri, 2)]
    if bending:
        edges += [(e[0], e[1]) for e in builder.edge_indices if e[1] >= 0]
    assert_valid(builder.particle_color_groups, builder.particle_count, np.array(edges))
    sizes = [len(group) for group in builder.particle_color_groups]
    assert len(sizes) <= 7 + 3 * bending
    if balance:
        assert max(sizes) <= 1.5 * min(sizes)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_soft_body_coloring_is_valid(algorithm):
    builder = ModelBuilder()
    builder.add_soft_grid((0, 0, 0), None, (0, 0, 0), 3, 3, 3, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
    builder.color(coloring_algorithm=algorithm)
    edges = np.array([pair for tet in builder.tet_indices for pair in itertools.combinations(tet, 2)])
    assert_valid(builder.particle_color_groups, builder.particle_count, edges)


def test_model_carries_the_colors():
    builder = ModelBuilder()
    builder.add_cloth_grid((0, 0, 0), None, (0, 0, 0), 3, 3, 1.0, 1.0, 1.0)
    builder.color()
    model = builder.finalize(device="cpu")
    colors = model.particle_colors.numpy()
    for number, group in enumerate(model.particle_color_groups):
        assert np.all(colors[group.numpy()] == number)


def test_colors_of_copies_stay_valid():
    env = ModelBuilder()
    env.add_cloth_grid((0, 0, 0), None, (0, 0, 0), 3, 3, 1.0, 1.0, 1.0)
    env.color()
    main = ModelBuilder()
    main.replicate(env, 3)
    assert len(main.particle_color_groups) == len(env.particle_color_groups)
    edges = element_graph(main.tri_indices)
    assert_valid(main.particle_color_groups, main.particle_count, edges)


def test_own_coloring():
    builder = ModelBuilder()
    for i in range(3):
        builder.add_particle((i, 0, 0), (0, 0, 0), 1.0)
    builder.set_coloring([[0, 2], np.array([1])])
    assert builder.finalize(device="cpu").particle_colors.numpy().tolist() == [0, 1, 0]
    builder.set_coloring([[0, 3]])
    with pytest.raises(ModelError, match="colour 0"):
        builder.finalize(device="cpu")


def test_unknown_algorithm_is_an_error():
    builder = ModelBuilder()
    builder.add_particle((0, 0, 0), (0, 0, 0), 1.0)
    with pytest.raises(ModelError, match="ColoringAlgorithm"):
        builder.color(coloring_algorithm=0)


def test_springs_of_one_color_share_no_particle():
    rng = np.random.default_rng(0)
    pairs = np.array([p for p in rng.integers(0, 30, (120, 2)) if p[0] != p[1]])
    groups = color_springs(pairs)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(pairs)))
    for group in groups:
        assert len(np.unique(pairs[group])) == 2 * len(group)
    assert len(color_springs([(0, 1), (1, 2), (2, 3), (3, 4)])) == 2
