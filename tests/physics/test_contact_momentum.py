"""What contacts give to a body is what they report: no momentum comes from rounding."""

import numpy as np

from newtonsim import envs

WORLDS = 32
DT = 0.01  # [s]


def test_fingers_give_a_cube_what_their_contacts_report():
    """A hand moves a cube at random, in a grip that has many solutions.

    On the way to a solution, impulses can be a million times what they end at; sums in single precision then
    lose what matters. Such steps gave the cube up to 30 m/s, of which no residual told.
    """
    env = envs.make("TurnInHand", WORLDS, "cpu", threads=1, max_episode_steps=0)
    env.reset(seed=7)
    env.sim.substeps, env.sim.dt = 1, DT
    model, state, solver = env.model, env.sim.state, env.sim.solver
    cube = model.body_key.index("cube")
    body_of_shape = model.shape_body.numpy()
    bodies = model.body_count // WORLDS
    weight = model.body_mass.numpy()[cube] * np.array([0.0, 0.0, -9.81])
    rng = np.random.default_rng(0)
    velocity = state.body_qd.numpy().reshape(WORLDS, -1, 6)[:, cube, 3:].copy()
    unexplained = []
    for _ in range(300):
        _, _, terminated, *_ = env.step(rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32))
        before, velocity = velocity, state.body_qd.numpy().reshape(WORLDS, -1, 6)[:, cube, 3:].copy()
        forces = solver.contact_forces().numpy()
        total = np.zeros((model.body_count, 3))
        for shapes, sign in (
            (solver.contacts.rigid_contact_shape0.numpy(), 1.0),
            (solver.contacts.rigid_contact_shape1.numpy(), -1.0),
        ):
            bodies_in_touch = np.where(shapes >= 0, body_of_shape[shapes], -1)
            used = bodies_in_touch >= 0
            np.add.at(total, bodies_in_touch[used], sign * forces[used])
        given = (total.reshape(WORLDS, bodies, 3)[:, cube] + weight) * DT / model.body_mass.numpy()[cube]
        unexplained.append(np.linalg.norm(velocity - before - given, axis=1)[~np.asarray(terminated)])
    # the residual that a solved step may leave
    assert np.concatenate(unexplained).max() < 1.0e-4
