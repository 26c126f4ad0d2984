"""Fast bodies meet thin ones, and the same input gives the same bits."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import Run

import newtonsim
from newtonsim.examples import scenes

DT = 1.0 / 240.0
WALLS = {
    "box": lambda b: b.add_shape_box(-1, hx=0.005, hy=1.0, hz=1.0),
    "cylinder": lambda b: b.add_shape_cylinder(-1, radius=1.0, half_height=0.005, up_axis=0),
    "hull": lambda b: b.add_shape_mesh(-1, mesh=slab(), convex=True),
    "mesh": lambda b: b.add_shape_mesh(-1, mesh=slab(), convex=False),
}


def slab() -> newtonsim.Mesh:
    """A plate of 1 cm."""
    corners = np.array([[x, y, z] for x in (-0.005, 0.005) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1]]
    faces += [[2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
    return newtonsim.Mesh(corners, faces)


@pytest.mark.parametrize("kind", ["sphere", "box", "capsule"])
@pytest.mark.parametrize("wall", WALLS)
def test_a_body_at_50_m_per_s_does_not_pass_a_wall_of_1_cm(device: str, wall: str, kind: str):
    """It moves by 21 cm a step, its own size by 5 cm; wherever in the step it arrives, it stops."""
    world = newtonsim.ModelBuilder(gravity=0.0)
    body = world.add_body()
    options = {"sphere": {"radius": 0.05}, "box": {"hx": 0.05, "hy": 0.05, "hz": 0.05}}
    options["capsule"] = {"radius": 0.03, "half_height": 0.05}
    getattr(world, f"add_shape_{kind}")(body, **options[kind])
    main = newtonsim.ModelBuilder(gravity=0.0)
    main.replicate(world, 20, spacing=(0.0, 0.0, 0.0))
    WALLS[wall](main)
    run = Run(main.finalize(device), DT)
    q = run.joint_q.reshape(20, -1)
    q[:, 0] = -np.linspace(0.5, 0.5 + 50.0 * DT, 20)
    qd = np.zeros((20, 6))
    qd[:, 3] = 50.0
    run.start(q, qd)
    run.run_for(0.1)
    assert np.all(run.body_q[:, 0] < -0.02)
    assert np.all(run.body_q[:, 0] > -0.2), "it came to the wall"


def test_a_wall_does_not_hold_what_flies_past(device: str):
    """Bounds are swept along the motion: a body that misses a wall by a hand keeps its velocity."""
    builder = newtonsim.ModelBuilder(gravity=0.0)
    body = builder.add_body(origin=wp.transform((-1.0, 1.15, 0.0), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.05)
    WALLS["box"](builder)
    run = Run(builder.finalize(device), DT).start(joint_qd=[0, 0, 0, 50.0, 0, 0])
    run.run_for(0.1)
    np.testing.assert_allclose(run.body_qd[0], [0, 0, 0, 50.0, 0, 0], atol=1e-4)


def test_same_input_same_bits(device: str):
    """Two runs of a falling heap agree to the last bit, through impacts, friction and direct solves."""
    ends = []
    for _ in range(2):
        run = Run(scenes.ball_pit(40).finalize(device), DT)
        run.run_for(1.5)
        ends.append((run.body_q, run.body_qd))
    np.testing.assert_array_equal(ends[0][0], ends[1][0])
    np.testing.assert_array_equal(ends[0][1], ends[1][1])


def test_worlds_do_not_depend_on_their_neighbours(device: str):
    """A pile comes out the same alone and among other worlds."""
    pile = scenes.ball_pit(12)
    together = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    together.replicate(pile, 3, spacing=(0.0, 0.0, 0.0))
    alone = Run(pile.finalize(device), DT)
    among = Run(together.finalize(device), DT)
    q = among.joint_q.reshape(3, -1)
    q[0, 0] += 0.05
    q[2, 1] -= 0.05
    among.start(joint_q=q)
    for run in (alone, among):
        run.run_for(1.0)
    np.testing.assert_array_equal(among.body_q.reshape(3, -1, 7)[1], alone.body_q)
