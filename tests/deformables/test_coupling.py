"""FeatherstoneSolver with deformables: how bodies yield, what they exchange, what is refused."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import add_hinge, diagonal_inertia, many, z_up

import newtonsim
from newtonsim import JointMode, Simulator
from newtonsim.errors import ModelError, NotDifferentiableError
from newtonsim.runtime.launcher import Launcher
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver, XPBDSolver
from newtonsim.solvers.xpbd.particles import XPBDParticles

DT = 1.0 / 240.0


def robot(gravity: float = 0.0) -> newtonsim.ModelBuilder:
    """A free base with two hinged links, one driven, and an arm on a fixed base."""
    builder = z_up(gravity)
    base = builder.add_body(mass=1.0, com=wp.vec3(0.02, 0.01, -0.03), I_m=diagonal_inertia(0.02, 0.03, 0.01))
    builder.add_joint_free(base)
    drive = {"mode": JointMode.TARGET_POSITION, "target": 0.3, "target_ke": 40.0, "target_kd": 60.0}
    upper = add_hinge(builder, parent=base, mass=0.3, length=0.1, inertia=0.002, **drive)
    add_hinge(builder, parent=upper, mass=0.1, length=0.1, inertia=0.0005, axis=(1.0, 0.0, 0.0))
    arm = add_hinge(builder, mass=0.5, length=0.3, inertia=0.004, armature=0.01)
    add_hinge(builder, parent=arm, mass=0.2, length=0.2, inertia=0.002)
    builder.add_particle((0.0, 0.0, -50.0), (0.0, 0.0, 0.0), 1.0, radius=0.01)
    return builder


SHORT = 1.0e-4
"""Step in which nothing turns, so that a change of velocity is linear in what caused it [s]."""


def posed(builder: newtonsim.ModelBuilder, device: str, seed: int = 3, **options) -> Simulator:
    """A simulator of short steps at random coordinates and velocities."""
    model = builder.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, deformables=XPBDSolver(model), **options), SHORT)
    rng = np.random.default_rng(seed)
    q, u = model.joint_q.numpy(), rng.normal(size=model.joint_dof_count)
    q[:3], q[3:7] = rng.normal(size=3), rng.normal(size=4)
    q[3:7] /= np.linalg.norm(q[3:7])
    q[7:] = rng.uniform(-1.0, 1.0, len(q) - 7)
    simulator.state.joint_q.assign(q.astype(np.float32))
    simulator.state.joint_qd.assign((0.3 * u).astype(np.float32))
    newtonsim.eval_fk(model, simulator.state.joint_q, simulator.state.joint_qd, None, simulator.state)
    return simulator


def stepped(simulator: Simulator, wrench: np.ndarray) -> np.ndarray:
    """Velocities (bodies, 6) after one step under external wrenches, from the present state."""
    model, out = simulator.model, simulator.model.state()
    start = simulator.state.clone()
    start.body_f.assign(wrench.astype(np.float32))
    simulator.solver.step(model, start, out, simulator.control, None, SHORT)
    return out.body_qd.numpy().astype(np.float64)


def test_links_yield_as_their_step_does(device: str):
    """M f h is the change of velocity by a wrench f in one step of the solver itself, drives included."""
    simulator = posed(robot(), device, coriolis="start")
    bodies = simulator.model.body_count
    free = stepped(simulator, np.zeros((bodies, 6)))
    mobility = simulator.solver.deformables.bodies.view.mobility.numpy().reshape(bodies, 6, 6)
    for b in range(bodies):
        for k in range(6):
            wrench = np.zeros((bodies, 6))
            wrench[b, k] = 0.5
            change = (stepped(simulator, wrench) - free)[b] / (0.5 * SHORT)
            scale = np.abs(mobility[b]).max()
            assert np.abs(mobility[b][:, k] - change).max() < 3e-3 * scale


def test_impulses_on_links_move_all_of_their_tree(device: str):
    """Impulses on several links at once change all velocities as a step with these forces does."""
    simulator = posed(robot(), device, coriolis="start")
    bodies = simulator.model.body_count
    free = stepped(simulator, np.zeros((bodies, 6)))
    wrench = np.random.default_rng(5).normal(size=(bodies, 6))
    wrench[1] = 0.0
    moving = simulator.solver.deformables.bodies
    before = moving.view.velocity.numpy().astype(np.float64)
    moving.view.impulse.assign((wrench * SHORT).astype(np.float32))
    moving.apply_impulses(newtonsim.runtime.launcher.Launcher(simulator.model, False))
    change = moving.view.velocity.numpy() - before
    expected = stepped(simulator, wrench) - free
    assert np.abs(change - expected).max() < 1e-3 * np.abs(expected).max()


def test_bodies_are_expected_where_they_will_be(device: str):
    """Gravity, drives and velocities: the expectation is the end of the step, to 1 % of its change."""
    simulator = posed(robot(-9.81), device)
    bodies = simulator.model.body_count
    start = simulator.state.body_qd.numpy()
    end = stepped(simulator, np.zeros((bodies, 6)))
    expected = simulator.solver.deformables.bodies.view.expected.numpy()
    assert np.abs(expected - end).max() < 0.01 * np.abs(end - start).max()


def test_what_rests_is_expected_to_rest(device: str):
    """A box on the ground: in flight it is expected to fall, after an impact not to bounce, then to stay."""
    builder = z_up()
    body = builder.add_body(origin=(0.0, 0.0, 0.11, 0.0, 0.0, 0.0, 1.0))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, density=1000.0)
    builder.add_particle((0.0, 5.0, 50.0), (0.0, 0.0, 0.0), 1.0, radius=0.01)
    builder.set_ground_plane()
    model = builder.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, deformables=XPBDSolver(model)), DT)
    speeds = []
    for _ in range(60):
        before = simulator.state.body_qd.numpy()[0, 5]
        simulator.step()
        speeds.append((before, simulator.solver.deformables.bodies.view.expected.numpy()[0, 5]))
    before, expected = np.array(speeds).T
    assert expected[3] == pytest.approx(before[3] - 9.81 * DT, rel=1e-4)
    assert np.all(expected - before < 1e-3)
    assert np.abs(expected[-10:]).max() < 1e-4


def test_a_joint_at_its_limit_does_not_yield(device: str):
    """A hinge that gravity presses on its limit: its link yields a thousand times less about the axis."""
    builder = z_up()
    for lower in (0.5, -3.0):
        body = add_hinge(builder, limit_lower=lower, limit_upper=3.0)
        builder.joint_q[-1] = 0.5
        assert body >= 0
    builder.add_particle((0.0, 5.0, 50.0), (0.0, 0.0, 0.0), 1.0, radius=0.01)
    model = builder.finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, deformables=XPBDSolver(model)), DT)
    simulator.step(5)
    mobility = simulator.solver.deformables.bodies.view.mobility.numpy().reshape(2, 6, 6)
    assert mobility[0][1, 1] < 2e-3 * mobility[1][1, 1]
    simulator.reset(wp.array([True], dtype=bool, device=device))
    simulator.step()
    mobility = simulator.solver.deformables.bodies.view.mobility.numpy().reshape(2, 6, 6)
    assert mobility[0][1, 1] == pytest.approx(mobility[1][1, 1], rel=1e-3)


def flying_cloth(builder: newtonsim.ModelBuilder, height: float = 0.5, speed: float = -2.0) -> None:
    """Springs of a net of 25 particles that falls on what is about the origin."""
    first = builder.particle_count
    for i in range(25):
        x, y = 0.15 * (i % 5 - 2), 0.15 * (i // 5 - 2)
        builder.add_particle((x + 0.01, y - 0.02, height), (0.0, 0.0, speed), 0.02, radius=0.02)
    for i in range(25):
        for step, fits in ((1, i % 5 < 4), (5, i < 20), (6, i % 5 < 4 and i < 20)):
            if fits:
                builder.add_spring(first + i, first + i + step, 200.0, 0.5, 0.0)


def momenta(model, state) -> np.ndarray:
    """Linear momentum and angular momentum about the world's origin of all that moves (6,)."""
    mass = np.concatenate([model.particle_mass.numpy(), model.body_mass.numpy()]).astype(np.float64)
    pose = state.body_q.numpy().astype(np.float64)
    turn = rotations(pose[:, 3:])
    com = pose[:, :3] + np.einsum("bij,bj->bi", turn, model.body_com.numpy())
    inertia = np.einsum("bij,bjk,blk->bil", turn, model.body_inertia.numpy(), turn)
    twist = state.body_qd.numpy().astype(np.float64)
    x = np.concatenate([state.particle_q.numpy(), com])
    p = mass[:, None] * np.concatenate([state.particle_qd.numpy(), twist[:, 3:]])
    spin = np.einsum("bij,bj->i", inertia, twist[:, :3])
    return np.concatenate([p.sum(axis=0), np.cross(x, p).sum(axis=0) + spin])


def rotations(quaternions: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(quaternions).as_matrix()


def hit(links: int) -> newtonsim.ModelBuilder:
    """A cloth that flies against a free box, to which further boxes are hinged."""
    builder = z_up(0.0)
    boxes(builder, links)
    flying_cloth(builder)
    return builder


def boxes(builder: newtonsim.ModelBuilder, links: int) -> None:
    """A free box, to which further boxes are hinged."""
    body = builder.add_body()
    builder.add_joint_free(body)
    builder.add_shape_box(body, hx=0.2, hy=0.2, hz=0.1, density=50.0)
    for k in range(links):
        side = 1.0 if k % 2 else -1.0
        link = builder.add_body()
        builder.add_shape_box(link, pos=(side * 0.15, 0.0, 0.0), hx=0.12, hy=0.1, hz=0.05, density=50.0)
        builder.add_joint_revolute(
            body,
            link,
            parent_xform=(side * 0.2, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0),
            axis=(0.0, 1.0, 0.0),
            armature=0.0,
        )


@pytest.mark.parametrize("links", [0, 2])
def test_momentum_of_cloth_and_robot(device: str, links: int):
    """A net hits a free robot without gravity: momentum to 1e-4, with links that turn to 5e-4.

    Reduced coordinates lose that much by themselves. Of angular momentum 1 %: the torque of an impulse counts
    about the centre of mass where the contact was found, in the robot's own step about that at its start.
    """
    model = hit(links).finalize(device)
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model, iterations=10))
    simulator = Simulator(model, solver, DT)
    start = momenta(model, simulator.state)
    simulator.step(120)
    end = momenta(model, simulator.state)
    exchanged = np.linalg.norm(simulator.state.body_qd.numpy()[0, 3:]) * float(model.body_mass.numpy().sum())
    assert exchanged > 0.3
    assert np.abs(end - start)[:3].max() < (5e-4 if links else 1e-4) * np.abs(start[2])
    assert np.abs(end - start)[3:].max() < 0.01 * 0.3 * exchanged


def test_one_step_balances_to_the_last_digit(device: str):
    """What the particles get in a step is what the free body gets."""
    model = hit(0).finalize(device)
    simulator = Simulator(model, FeatherstoneSolver(model, deformables=XPBDSolver(model)), DT)
    for _ in range(60):
        simulator.step()
        particles = model.particle_mass.numpy() @ simulator.state.particle_qd.numpy()
        body = model.body_mass.numpy() @ simulator.state.body_qd.numpy()[:, 3:]
        assert np.abs(particles + body - [0.0, 0.0, -1.0]).max() < 2e-6
    assert body[2] < -0.1


def sagging(device: str, worlds: int) -> newtonsim.Model:
    """A net that hits two hinged boxes."""
    world = hit(1)
    return many(world, worlds).finalize(device)


def simulated(model, steps: int, threads: int | None = None, start=None) -> dict[str, np.ndarray]:
    simulator = Simulator(
        model, FeatherstoneSolver(model, deformables=XPBDSolver(model, iterations=4)), DT, threads=threads
    )
    if start is not None:
        start(simulator)
    simulator.step(steps)
    names = ("particle_q", "particle_qd", "body_q", "body_qd", "joint_q", "joint_qd")
    arrays = {name: getattr(simulator.state, name) for name in names}
    return {name: array.numpy().copy() for name, array in arrays.items() if array is not None}


def test_a_batch_is_its_worlds(device: str):
    """Three equal worlds, in one piece and by two threads, are the single world bit for bit."""
    one = simulated(sagging(device, 1), 100)
    for threads in (1, 2):
        three = simulated(sagging(device, 3), 100, threads)
        for name, values in one.items():
            assert np.array_equal(three[name].reshape(3, *values.shape), np.stack([values] * 3)), name


def test_worlds_that_fail_are_alone(device: str):
    """A particle that is no number: its world is reported, the others are as without it."""

    def spoil(simulator: Simulator) -> None:
        v = simulator.state.particle_qd.numpy()
        v[25 + 3] = np.nan
        simulator.state.particle_qd.assign(v)

    good = simulated(sagging(device, 3), 100)
    model = sagging(device, 3)
    with pytest.warns(RuntimeWarning, match="1 of 3 worlds have become non-finite .*: 1"):
        bad = simulated(model, 100, start=spoil)
    for name, values in good.items():
        rows = values.reshape(3, -1)[[0, 2]]
        assert np.array_equal(bad[name].reshape(3, -1)[[0, 2]], rows), name


def test_worlds_are_reset_alone(device: str):
    model = sagging(device, 2)
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model, iterations=4))
    simulator = Simulator(model, solver, DT)
    simulator.step(60)
    simulator.reset(wp.array([False, True], dtype=bool, device=device))
    simulator.step(60)
    x = simulator.state.particle_q.numpy().reshape(2, -1, 3)
    once = simulated(sagging(device, 2), 60)["particle_q"].reshape(2, -1, 3)
    twice = simulated(sagging(device, 2), 120)["particle_q"].reshape(2, -1, 3)
    assert np.array_equal(x[0], twice[0])
    assert np.array_equal(x[1], once[1])


def test_steps_into_another_state(device: str):
    """In place or not, captured or not, with particles in this model or in another: the same bits."""
    model = sagging(device, 1)
    here = simulated(model, 40)
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model, iterations=4))
    one, two = model.state(), model.state()
    newtonsim.eval_fk(model, one.joint_q, one.joint_qd, None, one)
    for _ in range(20):
        solver.step(model, one, two, None, None, DT)
        solver.step(model, two, one, None, None, DT)
    for name, values in here.items():
        assert np.array_equal(getattr(one, name).numpy(), values), name


def test_particles_of_another_model(device: str):
    """The facade's way, particles in a model of their own, gives the same motion."""
    here = simulated(hit(1).finalize(device), 60)
    rigid, soft = z_up(0.0), z_up(0.0)
    boxes(rigid, 1)
    flying_cloth(soft)
    rigid, particles = rigid.finalize(device), soft.finalize(device)
    same = XPBDSolver(particles, iterations=4).particles
    system = XPBDParticles(particles, rigid, iterations=4, friction="mean", pairs=True)
    system.relaxation, system.contact_relaxation = same.relaxation, same.contact_relaxation
    solver = FeatherstoneSolver(rigid, deformables=system)
    simulator = Simulator(rigid, solver, DT)
    simulator.step(60)
    assert np.array_equal(solver.deformables.state.particle_q.numpy(), here["particle_q"])
    assert np.array_equal(simulator.state.body_q.numpy(), here["body_q"])
    everyone = wp.ones(rigid.world_count, dtype=bool, device=device)
    with pytest.raises(ModelError, match="do not start anew within a recording"):
        simulator.reset_worlds(Launcher(rigid, record_tape=False), everyone)


def test_particles_alone(device: str):
    """Without any bodies the particles move as they do among bodies far away."""
    alone, among = z_up(), z_up()
    for builder in (alone, among):
        flying_cloth(builder)
        builder.add_shape_box(-1, hx=0.3, hy=0.3, hz=0.1)
    body = among.add_body(origin=(9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    among.add_shape_box(body, density=1000.0)
    here, there = (simulated(builder.finalize(device), 120) for builder in (alone, among))
    assert np.array_equal(here["particle_q"], there["particle_q"])
    assert here["particle_q"][:, 2].max() > 0.1


def test_contacts_that_are_handed_in(device: str):
    """A box on the ground with a net on it: the same as with contacts that the solver finds itself."""
    builder = hit(0)
    builder.gravity = -9.81
    builder.add_shape_box(-1, pos=(0.0, 0.0, -0.3), hx=1.0, hy=1.0, hz=0.2)
    model = builder.finalize(device)
    here = simulated(model, 40)
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model, iterations=4))
    state, contacts = model.state(), newtonsim.Contacts(model)
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    for _ in range(40):
        newtonsim.collide(model, state, contacts=contacts)
        solver.step(model, state, state, None, contacts, DT)
    assert np.abs(state.particle_q.numpy() - here["particle_q"]).max() < 1e-4


def test_elements_need_deformables(device: str):
    builder = z_up()
    flying_cloth(builder)
    model = builder.finalize(device)
    with pytest.raises(ModelError, match=r"has 56 springs; pass deformables=XPBDSolver\(model\)"):
        FeatherstoneSolver(model)
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model))
    with pytest.raises(ModelError, match="56 springs"):
        solver.deformables = None
    with pytest.raises(TypeError, match=r"SemiImplicitSolver.* is neither"):
        FeatherstoneSolver(model, deformables=SemiImplicitSolver(model))
    with pytest.raises(TypeError, match="deformables: 3 is neither"):
        solver.deformables = 3
    assert solver.deformables is not None
    other = hit(0).finalize(device)
    with pytest.raises(ValueError, match="not with sleep"):
        FeatherstoneSolver(other, sleep=True, deformables=XPBDSolver(other))
    with pytest.raises(ModelError, match="another model"):
        FeatherstoneSolver(other, deformables=XPBDSolver(hit(0).finalize(device)))
    with pytest.raises(ModelError, match="nothing would move the 25 particles"):
        FeatherstoneSolver(model, deformables=XPBDSolver(builder.finalize(device)))


def test_no_gradient_in_silence(device: str):
    """A tape is refused; without one requires_grad changes nothing."""
    model = hit(1).finalize(device, requires_grad=True)
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model, iterations=4))
    one, two = model.state(), model.state()
    newtonsim.eval_fk(model, one.joint_q, one.joint_qd, None, one)
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="deformables"):
        solver.step(model, one, two, None, None, DT)
    for _ in range(20):
        solver.step(model, one, two, None, None, DT)
        solver.step(model, two, one, None, None, DT)
    plain = simulated(hit(1).finalize(device), 40)
    for name, values in plain.items():
        assert np.array_equal(getattr(one, name).numpy(), values), name


def test_a_change_of_deformables_is_seen(device: str):
    """A Simulator that has captured a step captures anew when its deformables or their options change."""
    model = hit(0).finalize(device)
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model))
    simulator = Simulator(model, solver, DT)
    simulator.step(10)
    before = solver.baked_revision()
    solver.deformables = XPBDSolver(model, iterations=7)
    assert solver.baked_revision() > before
    simulator.step(50)
    twin = Simulator(model, FeatherstoneSolver(model, deformables=XPBDSolver(model, iterations=7)), DT)
    twin.step(60)  # in the first 10 steps nothing touches, and springs do nothing
    assert np.abs(simulator.state.particle_q.numpy() - twin.state.particle_q.numpy()).max() < 1e-5


def test_particles_without_deformables_meet_nothing(device: str):
    builder = z_up()
    builder.add_particle((0.0, 0.0, 0.1), (0.0, 0.0, 0.0), 1.0, radius=0.05)
    builder.add_shape_box(-1, hx=1.0, hy=1.0, hz=0.05)
    model = builder.finalize(device)
    heights = []
    for options in ({}, {"deformables": XPBDSolver(model)}):
        simulator = Simulator(model, FeatherstoneSolver(model, **options), DT)
        simulator.step(240)
        heights.append(simulator.state.particle_q.numpy()[0, 2])
    assert heights[0] == pytest.approx(0.1 - 0.5 * 9.81 * (1.0 + DT), rel=1e-3)
    assert heights[1] == pytest.approx(0.1, abs=1e-3)
