"""Links of one robot that lie in each other from the start."""

import tracemalloc
import warnings

import numpy as np
import pytest
import trimesh

import newtonsim
from newtonsim.builder import overlaps
from newtonsim.errors import OverlapWarning
from newtonsim.solvers import FeatherstoneSolver

TURN = (0.0, 0.0, 0.0, 1.0)


def chain(third: float, shape: str = "box", joint: str = "hinges") -> newtonsim.ModelBuilder:
    """Three links along x at 0, 1 and `third` [m], 0.4 m thick; neighbours do not collide, the ends do."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    above = -1
    for name, x in (("base", 0.0), ("middle", 1.0), ("end", third)):
        body = builder.add_body(origin=((x, 0.0, 0.0), TURN), key=name)
        if shape == "box":
            builder.add_shape_box(body, hx=0.2, hy=0.2, hz=0.2)
        elif shape == "mesh":
            cube = trimesh.creation.box((0.4, 0.4, 0.4))
            builder.add_shape_mesh(body, mesh=newtonsim.Mesh(cube.vertices, cube.faces.reshape(-1)))
        else:
            getattr(builder, f"add_shape_{shape}")(body, radius=0.2)
        if above < 0:
            builder.add_joint_free(body)
        else:
            place = builder.body_q[body][0] - builder.body_q[above][0]
            builder.add_joint_revolute(
                above, body, parent_xform=((place, 0.0, 0.0), TURN), child_xform=None, axis=(0.0, 0.0, 1.0)
            )
        above = body
    return builder


@pytest.mark.parametrize("shape", ["box", "sphere", "mesh"])
def test_the_warning_names_links_and_depth(shape):
    builder = chain(0.15, shape)
    with pytest.warns(OverlapWarning, match=r"'base' with 'end' \(250 mm\)"):
        model = builder.finalize()
    assert model.shape_contact_pair_count == 0


@pytest.mark.parametrize("third", [0.399, 0.41, 2.0])
def test_links_that_only_touch_still_collide(third):
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        model = chain(third).finalize()
    assert model.shape_contact_pair_count == 1


def test_overlaps_are_kept_on_demand():
    builder = chain(0.15)
    builder.keep_overlaps = True
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        model = builder.finalize()
    assert model.shape_contact_pair_count == 1


def test_robots_that_lie_in_each_other_collide():
    """What a user puts into each other is not a flaw of a robot file."""
    builder = newtonsim.ModelBuilder(gravity=0.0)
    for x in (0.0, 0.1):
        body = builder.add_body(origin=((x, 0.0, 0.0), TURN))
        builder.add_joint_free(body)
        builder.add_shape_box(body, hx=0.2, hy=0.2, hz=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverlapWarning)
        assert builder.finalize().shape_contact_pair_count == 1


def test_every_copy_of_a_robot_is_found_and_named_once():
    many = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    many.replicate(chain(0.15), 50, spacing=(3.0, 3.0, 0.0))
    with pytest.warns(OverlapWarning) as caught:
        model = many.finalize()
    assert len(caught) == 1
    assert str(caught[0].message).count("'base' with 'end'") == 1
    assert caught[0].filename == __file__
    assert model.shape_contact_pair_count == 0


def test_nothing_moves_where_links_overlapped(device):
    with pytest.warns(OverlapWarning):
        model = chain(0.15).finalize(device)
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1.0 / 240.0)
    for _ in range(10):
        simulator.step()
    assert np.abs(simulator.state.body_qd.numpy()).max() == 0.0


def crowd(count: int, spread: float) -> newtonsim.ModelBuilder:
    """Boxes on one robot, at random places in a cube of some width [m]."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    places = np.random.default_rng(0).uniform(0.0, spread, (count, 3))
    for number, place in enumerate(places.tolist()):
        body = builder.add_body(origin=(place, TURN))
        builder.add_shape_box(body, hx=0.1, hy=0.15, hz=0.2)
        if not number:
            builder.add_joint_free(body)
            continue
        start = (np.subtract(place, places[0]).tolist(), TURN)
        builder.add_joint_revolute(0, body, parent_xform=start, child_xform=None, axis=(0.0, 0.0, 1.0))
    return builder


@pytest.mark.filterwarnings("ignore::newtonsim.OverlapWarning")
def test_neighbours_along_an_axis_are_all_that_overlap(monkeypatch):
    """Trees with more links than all pairs are looked at: the same pairs pass through each other."""
    builder = crowd(700, 4.0)
    few = builder.finalize("cpu").contact_rules.filter_keys
    monkeypatch.setattr(overlaps, "_FEW", 10**9)
    every = builder.finalize("cpu").contact_rules.filter_keys
    assert len(every) > 699 + 100
    np.testing.assert_array_equal(few, every)


@pytest.mark.filterwarnings("ignore::newtonsim.OverlapWarning")
def test_room_for_the_pairs_of_large_trees_is_bounded(monkeypatch):
    """Where 2,000 links lie in each other, too: all pairs of them are 2 million, 32 MB an array."""
    builder = crowd(2000, 1.0)
    monkeypatch.setattr(overlaps, "_MOST_NEAR", 20_000)
    monkeypatch.setattr(overlaps, "_MOST_MEASURED", 20)
    tracemalloc.start()
    try:
        with pytest.warns(OverlapWarning, match=r"\d{6} pairs of neighbouring links were not examined"):
            builder.finalize("cpu")
        assert tracemalloc.get_traced_memory()[1] < 3e7
    finally:
        tracemalloc.stop()


def test_time_grows_with_the_number_of_large_robots_alone(monkeypatch):
    """Every robot of many links went through all shapes of the world."""
    monkeypatch.setattr(overlaps, "_FEW", 2)
    robot = crowd(4, 400.0)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for _ in range(500):
        builder.add_builder(robot)
    looked_at = []
    distinct = overlaps.distinct
    monkeypatch.setattr(
        overlaps, "distinct", lambda sources: looked_at.append(len(sources)) or distinct(sources)
    )
    builder.finalize("cpu")
    assert looked_at == [2000]
