"""Scenes of rigid bodies run by XPBDSolver."""

from physics.scenes import Run

import newtonsim
from newtonsim.solvers import XPBDSolver

ITERATIONS = 10


class BodyRun(Run):
    """`Run` with XPBDSolver, and without the torsional and rolling friction that a model has by itself."""

    def __init__(self, model, dt: float, *, iterations: int = ITERATIONS, **options) -> None:
        self.model, self.dt = model, dt
        model.rigid_contact_torsional_friction = 0.0
        model.rigid_contact_rolling_friction = 0.0
        self.solver = XPBDSolver(model, iterations=iterations, **options)
        self.state, self.control = model.state(), model.control()
        newtonsim.eval_fk(model, self.state.joint_q, self.state.joint_qd, None, self.state)
        self.graph = None
