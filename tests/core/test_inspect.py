"""`newtonsim.inspect`: what it says of one world agrees with statics, and asking changes nothing."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.errors import NewtonsimError

GRAVITY = 9.81
DT = 1.0 / 240.0
UNIT = wp.mat33(*(0.01 * np.eye(3)).flatten().tolist())


def simulator(builder: newtonsim.ModelBuilder, device: str, **options) -> newtonsim.Simulator:
    model = builder.finalize(device)
    return newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model, **options), DT)


def walker(height: float) -> newtonsim.ModelBuilder:
    """A trunk on four legs, held by drives, with feet that touch the ground at `height` = 0.35."""
    builder = newtonsim.ModelBuilder()
    trunk = builder.add_body(key="trunk")
    builder.add_joint_free(trunk, key="root")
    builder.joint_q[1] = height
    builder.add_shape_box(trunk, hx=0.3, hy=0.05, hz=0.2)
    for n, (x, z) in enumerate([(0.25, 0.15), (0.25, -0.15), (-0.25, 0.15), (-0.25, -0.15)]):
        leg = builder.add_body(key=f"leg{n}")
        builder.add_joint_revolute(
            trunk,
            leg,
            parent_xform=wp.transform((x, -0.05, z), wp.quat_identity()),
            axis=(0.0, 0.0, 1.0),
            mode=newtonsim.JOINT_MODE_TARGET_POSITION,
            target_ke=400.0,
            target_kd=20.0,
            key=f"hip{n}",
        )
        builder.add_shape_sphere(leg, pos=(0.0, -0.26, 0.0), radius=0.04, key=f"foot{n}")
    return builder


def stack(count: int) -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder()
    for n in range(count):
        box = builder.add_body(
            origin=wp.transform((0.0, 0.1 + 0.2 * n, 0.0), wp.quat_identity()), key=f"box{n}"
        )
        builder.add_joint_free(box)
        builder.add_shape_box(box, hx=0.1, hy=0.1, hz=0.1, density=500.0 * (n + 1))
    return builder


def worlds_of(*builders: newtonsim.ModelBuilder) -> newtonsim.ModelBuilder:
    scene = newtonsim.ModelBuilder()
    for builder in builders:
        scene.add_builder(builder)
    scene.set_ground_plane()
    return scene


def test_feet_of_a_robot_carry_its_weight(device):
    sim = simulator(worlds_of(stack(1), walker(0.36)), device)
    sim.step(480)
    found = newtonsim.inspect(sim, world=1)
    mass = float(sim.model.body_mass.numpy()[1:].sum())
    assert sum(c.normal_impulse for c in found.contacts) == pytest.approx(mass * GRAVITY * found.dt, rel=1e-3)
    np.testing.assert_allclose(sum(c.tangent_impulse for c in found.contacts), 0.0, atol=1e-3 * mass * DT)
    assert {c.shapes[0] for c in found.contacts} == {f"foot{n}" for n in range(4)}
    assert {c.bodies[1] for c in found.contacts} == {"world"}
    for contact in found.contacts:
        foot = next(b for b in found.bodies if b.key == contact.bodies[0])
        # the foot's centre is 0.26 m below the hip, which is where the frame of the leg is
        np.testing.assert_allclose(contact.point, foot.position - [0.0, 0.3, 0.0], atol=5e-3)
        np.testing.assert_allclose(contact.normal, [0.0, 1.0, 0.0], atol=1e-6)
    assert [j.key for j in found.joints] == ["root", *(f"hip{n}" for n in range(4))]
    q = sim.state.joint_q.numpy()
    np.testing.assert_array_equal(found.joints[0].q, q[7:14])
    text = str(found)
    assert "world 1 at 2 s" in text
    assert "hip3" in text
    assert "normal [N s]" in text


def test_each_box_of_a_heap_carries_those_above(device):
    sim = simulator(worlds_of(stack(4)), device)
    sim.step(480)
    found = newtonsim.inspect(sim)
    mass = sim.model.body_mass.numpy()
    carried = {}
    for contact in found.contacts:
        # the upper body of the two feels a force upwards
        names = sorted(contact.bodies, key=lambda name: -1 if name == "world" else int(name[3:]))
        carried[names[1]] = carried.get(names[1], 0.0) + contact.normal_impulse * abs(contact.normal[1])
    assert len(carried) == 4
    for n in range(4):
        assert carried[f"box{n}"] == pytest.approx(mass[n:].sum() * GRAVITY * DT, rel=2e-2)
    assert found.residual is not None
    assert found.iterations >= 1


def test_rows_of_a_limit_and_of_a_loop(device):
    builder = newtonsim.ModelBuilder()
    arm = builder.add_body(mass=2.0, com=(0.5, 0.0, 0.0), I_m=UNIT, key="arm")
    builder.add_joint_revolute(
        -1, arm, axis=(0.0, 0.0, 1.0), limit_lower=0.0, limit_upper=1.0, armature=0.0, key="elbow"
    )
    lamp = builder.add_body(mass=3.0, I_m=UNIT, key="lamp")
    builder.add_joint_free(lamp)
    builder.add_constraint_weld(-1, lamp, key="hook")
    sim = simulator(builder, device)
    sim.step(480)
    rows = {(row.kind, row.of): row for row in newtonsim.inspect(sim).rows}
    # the arm lies on its lower limit, which holds the moment of its weight
    limit = rows["limit", "elbow [0]"]
    assert limit.impulse == pytest.approx(2.0 * GRAVITY * 0.5 * DT, rel=1e-3)
    held = [row.impulse for row in newtonsim.inspect(sim).rows if (row.kind, row.of) == ("offset", "hook")]
    assert len(held) == 3
    assert np.linalg.norm(held) == pytest.approx(3.0 * GRAVITY * DT, rel=1e-3)


def test_asking_changes_nothing(device):
    asked, alone = (simulator(worlds_of(stack(3)), device) for _ in range(2))
    for _ in range(50):
        asked.step()
        alone.step()
        str(newtonsim.inspect(asked))
    np.testing.assert_array_equal(asked.state.body_q.numpy(), alone.state.body_q.numpy())


@pytest.mark.parametrize("kind", ["xpbd", "compliant", "unstepped"])
def test_solvers_without_impulses_show_contacts(kind: str, device):
    model = worlds_of(stack(2)).finalize(device)
    options = {"contact_mode": "compliant"} if kind == "compliant" else {}
    solver = newtonsim.XPBDSolver(model) if kind == "xpbd" else newtonsim.FeatherstoneSolver(model, **options)
    sim = newtonsim.Simulator(model, solver, DT)
    if kind != "unstepped":
        sim.step(2)
    found = newtonsim.inspect(sim)
    assert found.rows == []
    assert found.residual is None
    assert {frozenset(c.bodies) for c in found.contacts} == {
        frozenset(("box0", "world")),
        frozenset(("box0", "box1")),
    }
    assert all(c.normal_impulse is None for c in found.contacts)


def test_no_such_world(device):
    sim = simulator(worlds_of(stack(1)), device)
    with pytest.raises(NewtonsimError, match=r"world: expected one of 0\.\.0, got 1"):
        newtonsim.inspect(sim, world=1)
