"""Bodies that are absent from some worlds: they meet nothing, move by nothing, and are seen by nothing."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, z_up

from newtonsim import ModelBuilder, SceneQuery, Simulator, View
from newtonsim.errors import ModelError, NewtonsimError, NotDifferentiableError
from newtonsim.render import SEEN_NOTHING, SEEN_STATIC, Camera, look_at
from newtonsim.solvers import FeatherstoneSolver, VBDSolver, XPBDSolver

DT = 1.0 / 240.0
IDENTITY = (0.0, 0.0, 0.0, 1.0)
WORLDS = 3


def boxes(names: str) -> ModelBuilder:
    """A leaning pile of boxes with these letters for names, each at its letter's place."""
    world = z_up()
    for name in names:
        level = ord(name) - ord("a")
        body = world.add_body(key=name, origin=((0.03 * level, 0.0, 0.11 + 0.21 * level), IDENTITY))
        world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    return world


def add_arm(world: ModelBuilder, name: str, where: tuple[float, float, float]) -> None:
    """Two links on a hinge each, with a limit, dry friction and a motor that is too weak, in the way."""
    world.add_articulation(name)
    above = -1
    for number in range(2):
        link = world.add_body(key=f"{name}{number}", mass=1.0, I_m=np.diag([0.01] * 3))
        world.add_shape_capsule(link, pos=(0.2, 0.0, 0.0), radius=0.05, half_height=0.15, up_axis=0)
        joint = world.add_joint_revolute(
            above,
            link,
            parent_xform=(where if above < 0 else (0.4, 0.0, 0.0), IDENTITY),
            axis=(0.0, 1.0, 0.0),
            limit_lower=-0.05,
            limit_upper=0.3,
            target=1.0,
            target_ke=100.0,
            target_kd=1.0,
            key=f"{name} hinge {number}",
        )
        world.joint_effort_limit[joint], world.joint_friction[joint] = 0.5, 0.1
        above = link


def simulator_of(world: ModelBuilder, device, count: int = WORLDS, threads: int | None = None, **options):
    scene = z_up()
    scene.replicate(world, count, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane()
    model = scene.finalize(device)
    return Simulator(model, FeatherstoneSolver(model, **options), DT, threads=threads)


def poses(sim: Simulator) -> np.ndarray:
    """Poses of the bodies by world."""
    return sim.state.body_q.numpy().reshape(sim.model.world_count, -1, 7)


@pytest.mark.parametrize("servos", [False, True])
def test_world_is_as_if_built_without(device, servos: bool):
    """To the bit: the world without, and those with; an arm in the way has neither contacts nor rows."""
    with_arm, without = boxes("abc"), boxes("abc")
    add_arm(with_arm, "arm", (-0.3, 0.0, 0.35))
    whole, bare, sim = (simulator_of(w, device, servos=servos) for w in (with_arm, without, with_arm))
    View(sim, "arm/*").bodies.present.write(False, worlds=[1])
    start = poses(sim)[1, 3:].copy()
    for each in (whole, bare, sim):
        each.step(120)
    np.testing.assert_array_equal(poses(sim)[[0, 2]], poses(whole)[[0, 2]])
    np.testing.assert_array_equal(poses(sim)[1, :3], poses(bare)[1])
    np.testing.assert_array_equal(poses(sim)[1, 3:], start)
    assert np.abs(poses(whole)[1, 3:] - start).max() > 0.01  # present, it falls to its limit
    assert np.abs(poses(whole)[1, :3] - poses(bare)[1]).max() > 0.01  # and pushes the pile
    rows = sim.solver.constraints.rows.dof.world_count.numpy()
    assert rows[1] == 0
    assert rows[0] == rows[2] > 0


def test_absent_from_the_middle_and_crowded(device):
    """A world that is swept for pairs, with the box in the middle missing; its order is another one."""
    names = "abcdefg"
    crowd = boxes(names)
    for number in range(80):
        ball = crowd.add_body(key=f"ball{number}", origin=((5.0 + 0.3 * number, 0.0, 0.1), IDENTITY))
        crowd.add_shape_sphere(ball, radius=0.1)
    sim = simulator_of(crowd, device, 2)
    assert sim.model.shape_contact_pairs is None
    View(sim, "d").bodies.present.write(False, worlds=[1])
    bare = simulator_of(boxes(names.replace("d", "")), device, 2)
    for each in (sim, bare):
        each.step(24)
    keep = [0, 1, 2, 4, 5, 6]
    # the order of the rows shows in residuals, of up to 1e-4 m/s in each step
    np.testing.assert_allclose(poses(sim)[1, keep], poses(bare)[1], atol=2e-6)
    assert np.abs(poses(sim)[0, keep] - poses(bare)[0]).max() > 1e-3


def test_it_comes_back_where_its_state_says(device):
    """And falls from there as anything does; what it was told while it was away counts."""
    sim = simulator_of(boxes("a"), device, 2)
    box = View(sim, "a*")
    box.bodies.present.write(False, worlds=[1])
    box.joints.qd.write([[0.0, 0.0, 0.0, 0.0, 0.0, 3.0]], worlds=[1])
    sim.step(10)
    np.testing.assert_array_equal(box.joints.qd[1], np.zeros(6))
    box.joints.q.write([[0.0, 0.0, 2.0, *IDENTITY]], worlds=[1])
    box.bodies.present = True
    sim.step(24)
    fall = GRAVITY * DT**2 * 24 * 25 / 2
    np.testing.assert_allclose(poses(sim)[1, 0, 2], 2.0 - fall, atol=1e-5)


def test_gears_of_absent_arms_turn_nothing(device):
    """An arm without limits that is geared to an absent one swings as by itself."""
    geared, free = z_up(), z_up()
    for world, names in ((geared, "xy"), (free, "x")):
        for name in names:
            link = world.add_body(key=name, mass=1.0, com=(0.3, 0.0, 0.0), I_m=np.diag([0.01] * 3))
            world.add_joint_revolute(-1, link, axis=(0.0, 1.0, 0.0), key=f"hinge {name}")
    geared.add_constraint_gear(0, 1, 2.0)
    sim, whole, bare = (simulator_of(world, device, 1) for world in (geared, geared, free))
    View(sim, "y").bodies.present = False
    for each in (sim, whole, bare):
        each.step(60)
    angle = bare.state.joint_q.numpy()[0]
    np.testing.assert_allclose(sim.state.joint_q.numpy(), [angle, 0.0], atol=1e-6)
    assert abs(whole.state.joint_q.numpy()[0] - angle) > 0.01


@pytest.mark.parametrize("kind", ["weld", "connect", "distance"])
def test_constraints_hold_only_what_is_there(device, kind: str):
    """A box that hangs on an absent one falls freely; in the other world it hangs."""
    world = z_up()
    top = world.add_body(key="top", origin=((0.0, 0.0, 3.0), IDENTITY), mass=0.0)
    box = world.add_body(key="box", origin=((0.0, 0.0, 2.0), IDENTITY), mass=1.0, I_m=np.diag([0.1] * 3))
    world.add_joint_free(box)
    world.joint_q[-5] = 2.0
    if kind == "distance":
        world.add_constraint_distance(top, box, max_distance=1.0)
    elif kind == "weld":
        world.add_constraint_weld(top, box)
    else:
        world.add_constraint_connect(top, box, (0.0, 0.0, -1.0), (0.0, 0.0, 0.0))
    sim = simulator_of(world, device, 2)
    View(sim, "top").bodies.present.write(False, worlds=[0])
    sim.step(48)
    fall = GRAVITY * DT**2 * 48 * 49 / 2
    np.testing.assert_allclose(poses(sim)[:, 1, 2], [2.0 - fall, 2.0], atol=2e-3)
    View(sim, "top").bodies.present = True
    sim.step(2)
    assert np.abs(sim.solver.constraint_forces().numpy()[0]).max() > 1.0


def test_kinematic_bodies_stand_still(device):
    world = z_up()
    world.add_body(key="cart", mass=0.0)
    world.body_qd[0] = wp.spatial_vector(0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    sim = simulator_of(world, device, 2)
    View(sim, "cart").bodies.present.write(False, worlds=[1])
    sim.step(24)
    np.testing.assert_allclose(poses(sim)[:, 0, 0], [0.1, 0.0], atol=1e-6)


def test_recording_switches_worlds_by_itself(device):
    """A hook of the recorded step takes the upper box out of one world after 20 steps."""
    count = wp.zeros(1, dtype=int, device=device)
    sim = simulator_of(boxes("ab"), device, 2)
    View(sim).bodies.present = True  # from now on they may
    model = sim.model

    def before(launch, sim):
        launch(count_steps, "world", reads=dict(), writes=dict(count=count, present=model.body_present))

    hooked = Simulator(model, FeatherstoneSolver(model), DT, threads=1, before=before)
    hooked.step(20)
    held = poses(hooked)[:, 1].copy()
    hooked.step(60)
    np.testing.assert_array_equal(poses(hooked)[1, 1], held[1])
    assert hooked.model.body_present.numpy().tolist() == [1, 1, 1, 0]
    alone = simulator_of(boxes("ab"), device, 2)
    alone.step(80)
    np.testing.assert_array_equal(poses(hooked)[0], poses(alone)[0])


@wp.kernel
def count_steps(first: int, count: wp.array(dtype=int), present: wp.array(dtype=int)):
    """One thread per world: world 1 loses its second body with the step after the 20th."""
    w = first + wp.tid()
    if w == 1:
        count[0] = count[0] + 1
        if count[0] > 20:
            present[3] = 0


def test_threads_and_masks(device):
    """Any number of threads gives the same bits, and masks say which worlds."""
    world = boxes("abc")
    add_arm(world, "arm", (-0.3, 0.0, 0.35))
    mask = np.arange(8) % 3 == 1
    found = []
    for threads in (1, 3):
        sim = simulator_of(world, device, 8, threads)
        View(sim, "arm/*").bodies.present.write(False, worlds=mask)
        View(sim, "b").bodies.present.write(np.arange(8)[:, None] != 5)
        sim.step(40)
        found.append(poses(sim).copy())
    np.testing.assert_array_equal(*found)
    present = sim.model.body_present.numpy().reshape(8, -1)
    np.testing.assert_array_equal(present[:, 3:], np.where(mask, 0, 1)[:, None] * [1, 1])
    np.testing.assert_array_equal(np.flatnonzero(present[:, 1] == 0), [5])


def test_sleepers_wake_where_their_support_vanishes(device):
    sim = simulator_of(boxes("ab"), device, 2, sleep=True, sleep_time=0.1)
    sim.step(480)
    assert sim.solver.sleep.asleep.numpy().all()
    asleep = poses(sim).copy()
    View(sim, "a").bodies.present.write(False, worlds=[1])
    sim.step(120)
    np.testing.assert_array_equal(poses(sim)[0], asleep[0])
    np.testing.assert_allclose(poses(sim)[1, 1, 2], 0.1, atol=2e-3)  # on the ground now


def test_nothing_sees_it(device):
    """Rays, closest points and cameras of the world without it; the other world has it."""
    sim = simulator_of(boxes("a"), device, 2)
    where = look_at((0.0, -0.5, 0.4), (0.0, 0.0, 0.11))
    camera = Camera(sim.model, 16, 12, pose=where, outputs=("body", "rgb"))
    before = camera.render(sim.state)["rgb"].numpy().copy()
    queries = [SceneQuery(sim.model), SceneQuery(sim.model, surfaces=True)]
    View(sim, "a").bodies.present.write(False, worlds=[0])
    for query in (*queries, SceneQuery(sim.model, surfaces=True)):
        query.update(sim.state)
        hits = query.rays([[[0.0, 0.0, 3.0]]] * 2, (0.0, 0.0, -1.0))
        np.testing.assert_allclose(hits.distance.numpy().reshape(-1), [3.0, 2.79], atol=1e-5)
        near = query.closest(query.bodies(0), query.surroundings()).distance.numpy().reshape(-1)
        assert near[0] > 1e6
        np.testing.assert_allclose(near[1], 0.01, atol=1e-5)
    seen = camera.render(sim.state)["body"].numpy()
    assert set(np.unique(seen[0])) <= {SEEN_NOTHING, SEEN_STATIC}
    assert (seen[1] == 1).any()
    View(sim, "a").bodies.present = True
    np.testing.assert_array_equal(camera.render(sim.state)["rgb"].numpy(), before)


def test_queries_made_after_a_recording(device):
    """They see what is there now, though only the model's array was written."""
    sim = simulator_of(boxes("a"), device, 2)
    View(sim).bodies.present = True
    sim.step(2)
    queries = [SceneQuery(sim.model), SceneQuery(sim.model, surfaces=True)]
    sim.model.body_present.assign([0, 1])
    sim.step()
    for query in queries:
        hits = query.update(sim.state).rays([[[0.0, 0.0, 3.0]]] * 2, (0.0, 0.0, -1.0))
        np.testing.assert_allclose(hits.distance.numpy().reshape(-1), [3.0, 2.79], atol=2e-3)


def test_checkpoint_in_a_new_simulation(device, tmp_path):
    sims = [simulator_of(boxes("abc"), device, 2) for _ in range(2)]
    View(sims[0], "b").bodies.present.write(False, worlds=[1])
    sims[0].step(30)
    sims[0].save(tmp_path / "there")
    sims[1].restore(tmp_path / "there")
    for sim in sims:
        sim.step(60)
    np.testing.assert_array_equal(poses(sims[0]), poses(sims[1]))


def test_worlds_that_are_described_so(device):
    """The list of the builder says it from the start."""
    world = boxes("ab")
    world.body_present[1] = 0
    sim, bare = simulator_of(world, device, 2), simulator_of(boxes("a"), device, 2)
    for each in (sim, bare):
        each.step(60)
    np.testing.assert_array_equal(poses(sim)[:, 0], poses(bare)[:, 0])
    np.testing.assert_array_equal(View(sim).bodies.present, [[1, 0]] * 2)


def test_misuse_is_refused():
    world = boxes("a")
    add_arm(world, "arm", (-0.3, 0.0, 0.35))
    sim = simulator_of(world, "cpu", 2)
    with pytest.raises(ModelError, match=r"the tree of 'arm0' .* 'arm0' is a part of it and was left out"):
        View(sim, "arm1").bodies.present = False
    with pytest.raises(ModelError, match="'arm1' is a part of it and was given another number"):
        View(sim, "arm/*").bodies.present = [0, 1]
    with pytest.raises(NewtonsimError, match=r"bodies.present: expected numbers from 0 to 1"):
        View(sim, "a").bodies.present = 2
    assert not sim.model.bodies_may_be_absent
    with pytest.raises(ModelError, match=r"bodies.present: XPBDSolver moves all bodies"):
        View(Simulator(sim.model, XPBDSolver(sim.model), DT), "a").bodies.present = False
    View(sim.model, "a").bodies.present = False
    state = sim.model.state()
    with pytest.raises(ModelError, match="VBDSolver moves all bodies"):
        VBDSolver(sim.model).step(sim.model, state, state, None, None, DT)
    grains = boxes("a")
    grains.add_particle((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 1.0)
    with pytest.raises(ModelError, match="models with particles"):
        View(grains.finalize("cpu"), "a").bodies.present = False


def test_no_gradient_in_silence():
    model = boxes("a").finalize("cpu", requires_grad=True)
    View(model, "a").bodies.present = False
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="bodies that may be absent"):
        FeatherstoneSolver(model).step(model, model.state(), model.state(), None, None, DT)
