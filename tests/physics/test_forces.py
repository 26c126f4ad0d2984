"""Forces of the last step: of contacts, of constraints and through joints."""

import math

import numpy as np
import pytest
import warp as wp
from physics.linkages import COUPLER, MASSES, configuration, four_bar
from physics.scenes import GRAVITY, Run, add_hinge, diagonal_inertia, quaternion, z_up

import newtonsim
from newtonsim import JointAxis, JointMode, JointType
from newtonsim.testing import random_coordinates, random_model

DT = 1.0 / 240.0


def box(builder: newtonsim.ModelBuilder, height: float, mass: float, **material: float) -> int:
    pose = wp.transform((0.0, 0.0, height), wp.quat_identity())
    body = builder.add_body(origin=pose, mass=mass, I_m=diagonal_inertia(*[mass * 0.01] * 3))
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, density=0.0, **material)
    return body


def test_resting_boxes_press_with_their_weight(device: str):
    """Box on box on the ground: the sums over the contacts of each pair are the weights above."""
    builder = z_up()
    box(builder, 0.1, 2.0)
    box(builder, 0.3, 0.5)
    builder.set_ground_plane()
    run = Run(builder.finalize(device), DT).run_for(2.0)
    force = run.solver.contact_forces().numpy()
    contacts = run.solver.contacts
    shapes = np.stack([contacts.rigid_contact_shape0.numpy(), contacts.rigid_contact_shape1.numpy()], axis=1)
    assert not force[shapes[:, 0] < 0].any()
    for shape, weight in ((0, 2.0 * GRAVITY), (1, 0.5 * GRAVITY)):
        on_shape = force[shapes[:, 0] == shape].sum(axis=0) - force[shapes[:, 1] == shape].sum(axis=0)
        np.testing.assert_allclose(on_shape, [0.0, 0.0, weight], rtol=0.0, atol=0.01 * weight)
    out = wp.zeros(len(force), dtype=wp.vec3, device=device)
    assert run.solver.contact_forces(out) is out
    np.testing.assert_array_equal(out.numpy(), force)


def test_sliding_box_feels_friction(device: str):
    """Contact forces of a box that slides along +x hold μ m g towards -x."""
    builder = z_up()
    box(builder, 0.1, 2.0, mu=0.3)
    builder.set_ground_plane(mu=0.3)
    run = Run(builder.finalize(device), DT).run_for(0.5)
    run.start(run.joint_q, [0.0, 0.0, 0.0, 2.0, 0.0, 0.0]).step(30)
    force = run.solver.contact_forces().numpy().sum(axis=0)
    weight = 2.0 * GRAVITY
    np.testing.assert_allclose(force, [-0.3 * weight, 0.0, weight], rtol=0.0, atol=0.01 * weight)


def test_pendulum_pulls_at_its_hinge(device: str):
    """m g cos q + m l ω² along the rod, and across it what the rotation leaves of gravity."""
    mass, length, inertia, dt = 2.0, 0.5, 0.05, 1.0 / 4000.0
    builder = z_up()
    add_hinge(builder, mass=mass, length=length, inertia=inertia)
    run = Run(builder.finalize(device), dt).start([1.2]).run_for(0.3)
    start, before = run.joint_q[0], run.joint_qd[0]
    run.step()
    middle = 0.5 * (before + run.joint_qd[0])
    acceleration = -mass * GRAVITY * length * math.sin(start) / (inertia + mass * length**2)
    # the rod points along (-sin q, 0, -cos q), and moves along (-cos q, 0, sin q)
    rod, across = [
        np.array([-math.sin(start), 0.0, -math.cos(start)]),
        np.array([-math.cos(start), 0.0, math.sin(start)]),
    ]
    expected = mass * (length * acceleration * across - length * middle**2 * rod) + [0.0, 0.0, mass * GRAVITY]
    wrench = run.solver.joint_reactions(run.state).numpy()[0]
    np.testing.assert_allclose(wrench[3:], expected, rtol=0.0, atol=2.0e-3 * mass * GRAVITY)
    np.testing.assert_allclose(wrench[:3], 0.0, rtol=0.0, atol=2.0e-3 * mass * GRAVITY * length)


def held_arm(device: str, links: int = 3) -> newtonsim.Model:
    """A horizontal arm with stiff drives, anchors turned, a weight in each link's middle."""
    builder = z_up()
    parent = -1
    for _ in range(links):
        body = builder.add_body(mass=1.5, com=(0.2, 0.0, 0.0), I_m=diagonal_inertia(0.01, 0.02, 0.02))
        frame = wp.transform((0.0 if parent < 0 else 0.4, 0.0, 0.0), wp.quat_identity())
        axis = JointAxis(
            (0.0, 1.0, 0.0), target_ke=1.0e5, target_kd=1.0e3, mode=JointMode.TARGET_POSITION, action=0.0
        )
        builder.add_joint_revolute(parent, body, parent_xform=frame, axis=axis, armature=0.0)
        parent = body
    return builder.finalize(device)


def test_arm_carries_its_weight(device: str):
    """At rest each joint bears the weights beyond it and their moments about it."""
    run = Run(held_arm(device), DT).run_for(5.0)
    wrench = run.solver.joint_reactions(run.state).numpy()
    for joint in range(3):
        beyond = 3 - joint
        force = beyond * 1.5 * GRAVITY
        # the moment of the weights about the joint is (0, +M, 0); the joint bears the opposite
        moment = sum(1.5 * GRAVITY * (0.2 + 0.4 * link) for link in range(beyond))
        expected = [0.0, -moment, 0.0, 0.0, 0.0, force]
        np.testing.assert_allclose(wrench[joint], expected, rtol=0.0, atol=5.0e-3 * moment)


def test_drive_and_floor_share_the_load(device: str):
    """A hinged box rests with its far edge on the ground: hinge and contacts bear the weight together."""
    builder = z_up()
    body = builder.add_body(mass=2.0, com=(0.3, 0.0, 0.0), I_m=diagonal_inertia(0.02, 0.02, 0.02))
    builder.add_shape_sphere(body, pos=(0.5, 0.0, 0.0), radius=0.1, density=0.0, mu=0.0)
    frame = wp.transform((0.0, 0.0, 0.1), wp.quat_identity())
    builder.add_joint_revolute(-1, body, parent_xform=frame, axis=(0.0, 1.0, 0.0), armature=0.0)
    builder.set_ground_plane(mu=0.0)
    run = Run(builder.finalize(device), DT).run_for(2.0)
    weight = 2.0 * GRAVITY
    contact = run.solver.contact_forces().numpy().sum(axis=0)
    np.testing.assert_allclose(contact, [0.0, 0.0, 0.6 * weight], rtol=0.0, atol=1.0e-2 * weight)
    wrench = run.solver.joint_reactions(run.state).numpy()[0]
    np.testing.assert_allclose(wrench[3:], [0.0, 0.0, 0.4 * weight], rtol=0.0, atol=1.0e-2 * weight)
    np.testing.assert_allclose(wrench[:3], 0.0, rtol=0.0, atol=1.0e-2)


def test_limit_belongs_to_its_joint(device: str):
    """A link against its limit: the torque of the limit is part of what the joint transmits."""
    builder = z_up()
    add_hinge(builder, mass=2.0, length=0.5, limit_lower=0.4, limit_upper=1.0)
    run = Run(builder.finalize(device), DT).start([0.5]).run_for(2.0)
    wrench = run.solver.joint_reactions(run.state).numpy()[0]
    expected = [0.0, 2.0 * GRAVITY * 0.5 * math.sin(0.4), 0.0, 0.0, 0.0, 2.0 * GRAVITY]
    np.testing.assert_allclose(wrench, expected, rtol=0.0, atol=2.0e-2)


def test_linkage_at_rest_bears_its_weights(device: str):
    """A four-bar with a held crank: pins by the equilibrium of coupler and rocker, each about one pin."""
    builder = four_bar(start=1.2)
    builder.add_constraint_coupling(0, -1, (1.2,))
    run = Run(builder.finalize(device), DT)
    run.model.joint_damping.fill_(0.5)
    run.run_for(4.0)
    _, coupler, rocker = configuration(1.2)
    # unknown force of the coupler on the rocker, (fx, fz), from the moments about the pins of both
    arms = [
        COUPLER * np.array([math.cos(coupler), math.sin(coupler)]),
        0.4 * np.array([math.cos(rocker), math.sin(rocker)]),
    ]
    weights = [MASSES[1] * GRAVITY, MASSES[2] * GRAVITY]
    # moment of a force (fx, fz) at arm (x, z) about y in the sense from x to z: x fz - z fx
    matrix = np.array([[arms[0][1], -arms[0][0]], [-arms[1][1], arms[1][0]]])
    load = np.array([0.5 * arms[0][0] * weights[0], 0.5 * arms[1][0] * weights[1]])
    fx, fz = np.linalg.solve(matrix, load)
    pin = run.solver.constraint_forces().numpy()[0]
    np.testing.assert_allclose(pin[[3, 5]], [fx, fz], rtol=0.0, atol=0.02 * abs(fz))
    wrench = run.solver.joint_reactions(run.state).numpy()
    # the ground's pin of the rocker bears the rest of its weight
    np.testing.assert_allclose(wrench[2, [3, 5]], [-fx, weights[1] - fz], rtol=0.0, atol=0.02 * weights[1])
    np.testing.assert_allclose(wrench[1, [3, 5]], [fx, weights[0] + fz], rtol=0.0, atol=0.02 * weights[0])
    held = run.solver.constraint_forces().numpy()[1, 0]
    assert wrench[0, 1] == pytest.approx(-held, rel=1.0e-3)


def test_free_bodies_have_no_reaction(device: str):
    """What moves a free body is accounted for: contacts and a weld leave nothing to its joint."""
    builder = z_up()
    bodies = [box(builder, 0.12 + 0.3 * k, 1.0 + k, mu=0.4) for k in range(3)]
    builder.add_constraint_weld(bodies[1], bodies[2])
    builder.set_ground_plane(mu=0.4)
    run = Run(builder.finalize(device), DT)
    rng = np.random.default_rng(0)
    run.start(joint_qd=rng.normal(0.0, 1.0, 18))
    worst = 0.0
    for _ in range(60):
        run.step_eagerly()
        force = np.abs(run.solver.contact_forces().numpy()).max()
        rest = np.abs(run.solver.joint_reactions(run.state).numpy()).max()
        worst = max(worst, rest / (force + 20.0))
    assert worst < 1.0e-3


def test_reactions_agree_with_generalised_forces(device: str):
    """Projected onto the axes of a random tree, reactions are the efforts that were put in."""
    model = random_model(5, joint_types=[JointType.REVOLUTE, JointType.PRISMATIC], armature=0.0).finalize(
        device
    )
    joint_q, joint_qd = random_coordinates(model, 1, angle=0.4, speed=0.5)
    run = Run(model, 1.0 / 1000.0).start(joint_q, joint_qd)
    efforts = np.random.default_rng(2).normal(0.0, 1.0, model.joint_dof_count).astype(np.float32)
    model.joint_velocity_limit.fill_(math.inf)
    run.control.joint_f.assign(efforts)
    poses = run.body_q
    run.step_eagerly()
    wrench = run.solver.joint_reactions(run.state).numpy()
    child, anchor = model.joint_child.numpy(), model.joint_X_c.numpy()
    axes, dims = model.joint_axis.numpy(), model.joint_axis_dim.numpy()
    from newtonsim.geometry.transforms import quat_rotate, transform_multiply

    found = []
    for joint in range(model.joint_count):
        frame = transform_multiply(poses[child[joint]], anchor[joint])
        axis = quat_rotate(frame[3:], axes[joint])
        found.append(wrench[joint, :3] @ axis if dims[joint, 1] else wrench[joint, 3:] @ axis)
    np.testing.assert_allclose(found, efforts, rtol=0.0, atol=2.0e-2)


def test_forces_can_be_captured(device: str):
    builder = z_up()
    box(builder, 0.1, 2.0)
    builder.set_ground_plane()
    run = Run(builder.finalize(device), DT)
    run.step_eagerly()
    contact, joint = run.solver.contact_forces(), run.solver.joint_reactions(run.state)
    with wp.ScopedCapture(device=device) as capture:
        run.step_eagerly()
        run.solver.contact_forces(contact)
        run.solver.joint_reactions(run.state, joint)
    for _ in range(240):
        wp.capture_launch(capture.graph)
    assert contact.numpy()[:, 2].sum() == pytest.approx(2.0 * GRAVITY, rel=1.0e-3)
    np.testing.assert_allclose(joint.numpy(), 0.0, rtol=0.0, atol=1.0e-3)


def test_forces_need_a_step_and_a_fitting_buffer(device: str):
    builder = z_up()
    box(builder, 0.1, 2.0)
    builder.set_ground_plane()
    model = builder.finalize(device)
    solver = newtonsim.FeatherstoneSolver(model)
    with pytest.raises(RuntimeError, match="before the first step"):
        solver.contact_forces()
    solver.step(model, model.state(), model.state(), None, None, DT)
    with pytest.raises(ValueError, match="one per joint"):
        solver.joint_reactions(model.state(), wp.zeros(5, dtype=wp.vec3, device=device))
    compliant = newtonsim.FeatherstoneSolver(model, contact_mode="compliant")
    with pytest.raises(RuntimeError, match="compliant"):
        compliant.contact_forces()


def test_turned_weld_reports_its_wrench(device: str):
    """A weld bears a weight at an arm; the wrench is in world axes about the anchor."""
    builder = z_up()
    turn = wp.quat(*quaternion((1.0, -2.0, 0.4), 1.3))
    pose = wp.transform((0.3, 0.2, 1.0), turn)
    body = builder.add_body(origin=pose, mass=2.0, com=(0.1, 0.3, -0.2), I_m=diagonal_inertia(0.1, 0.1, 0.1))
    builder.add_constraint_weld(-1, body)
    run = Run(builder.finalize(device), DT).run_for(2.0)
    wrench = run.solver.constraint_forces().numpy()[0]
    arm = np.array(wp.quat_rotate(turn, wp.vec3(0.1, 0.3, -0.2)))
    weight = np.array([0.0, 0.0, -2.0 * GRAVITY])
    np.testing.assert_allclose(wrench[3:], -weight, rtol=0.0, atol=2.0e-2)
    np.testing.assert_allclose(wrench[:3], -np.cross(arm, weight), rtol=0.0, atol=2.0e-2)
