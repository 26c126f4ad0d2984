"""The adjoint of the constraints of a step by sparse matrices of SciPy, from the rows of the step."""

import dataclasses

import numpy as np
import scipy.sparse
import warp as wp
from scipy.sparse.linalg import spsolve

import newtonsim
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.topology import topology_of
from newtonsim.solvers import FeatherstoneSolver

SOFTENING = 1.0e-6
SLOWEST_SLIP = 1.0e-4
SLIDES = 2


@dataclasses.dataclass
class ExactContact:
    """A contact that acts: what the linearised system knows of it."""

    slides: bool
    friction: float
    normal: float
    slip: np.ndarray
    delassus: np.ndarray
    softness: float

    def weights(self) -> np.ndarray:
        """Multipliers by the velocities of the three rows under λ, (3, 3)."""
        soft = SOFTENING * self.delassus
        normal = 1.0 / (soft[0] + self.softness)
        if not self.slides:
            return np.diag([normal, 1.0 / soft[1], 1.0 / soft[1]])
        speed = max(np.linalg.norm(self.slip), SLOWEST_SLIP)
        d = self.slip / speed
        M = np.zeros((3, 3))
        M[0] = normal * np.array([1.0, *(-self.friction * d)])
        M[1:, 1:] = self.friction * self.normal / speed * (np.eye(2) - np.outer(d, d))
        return M


class ExactAdjoint:
    """(λ, m) of H λ + Jᵀ m + J_tᵀ K J_t λ = g, (J + μ dᵀ J_t) λ = C m, of models with contacts alone.

    Args:
        solver: A solver after the backward pass of one step.

    Attributes:
        places: Where the contacts that act stand.
        contacts: They themselves.
        rows: Their Jacobian for velocities in energy coordinates, (3 contacts, dofs).
        to_energy: Matrix that brings joint velocities there, (dofs, dofs).
    """

    def __init__(self, solver: FeatherstoneSolver):
        adjoint = solver.adjoint
        self.stage, mode = adjoint.constraints.stage, adjoint.constraints.rows.contact_mode.numpy()
        topology = topology_of(solver.model)
        self.depth = topology.max_depth
        names = ("dof_row", "dof_depth", "row_dof")
        row, depth, chain = (getattr(topology.view, name).numpy() for name in names)
        self.chains = [chain[r : r + n + 1] for r, n in zip(row, depth)]
        self.to_energy = self._to_energy(adjoint.smooth.L.numpy().astype(np.float64), row)
        view = adjoint.contacts.view
        used = zip(view.world_start.numpy(), view.world_count.numpy())
        self.places = [c for start, count in used for c in range(start, start + count) if mode[c]]
        self.rows = self._jacobian()
        self.contacts = self._contacts(mode)

    def _to_energy(self, L: np.ndarray, row: np.ndarray) -> scipy.sparse.csr_array:
        """The matrix of z = √D L v."""
        matrix = scipy.sparse.lil_array((len(row), len(row)))
        for d, chain in enumerate(self.chains):
            own = np.append(L[row[d] : row[d] + len(chain) - 1], 1.0) / L[row[d] + len(chain) - 1]
            matrix[[d], chain] = own[None]
        return matrix.tocsr()

    def _jacobian(self) -> scipy.sparse.csr_array:
        rows = self.stage.rows.contact
        B, leaf = rows.B.numpy().astype(np.float64), rows.leaf.numpy()
        entries = []
        for k, c in enumerate(self.places):
            for side, d in enumerate(leaf[c]):
                for m, dof in enumerate(self.chains[d] if d >= 0 else []):
                    entries += [(B[c, side * self.depth + m, q], 3 * k + q, dof) for q in range(3)]
        value, i, j = np.array(entries).T
        shape = (3 * len(self.places), len(self.chains))
        return scipy.sparse.coo_array((value, (i.astype(int), j.astype(int))), shape).tocsr()

    def _contacts(self, mode: np.ndarray) -> list[ExactContact]:
        rows = self.stage.rows.contact
        names = ("friction", "delassus", "softness", "target", "impulse")
        friction, delassus, softness, target, impulse = (getattr(rows, n).numpy()[self.places] for n in names)
        slip = (self.rows @ self.stage.z.numpy().astype(np.float64)).reshape(-1, 3) - target
        slides = mode[self.places] == SLIDES
        given = (slides, friction, impulse[:, 0], slip[:, 1:], delassus.astype(np.float64), softness)
        return [ExactContact(*values) for values in zip(*given)]

    def solve(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return λ and the multipliers of the contacts, (contacts, 3)."""
        M = scipy.sparse.block_diag([contact.weights() for contact in self.contacts], format="csr")
        matrix = scipy.sparse.eye_array(len(g)) + self.rows.T @ M @ self.rows
        zeta = spsolve(matrix.tocsc(), spsolve(self.to_energy.T.tocsc(), g))
        v = self.rows @ zeta
        m = np.where(self.are_equations(), (M @ v).reshape(-1, 3), v.reshape(-1, 3))
        return spsolve(self.to_energy.tocsc(), zeta), m

    def are_equations(self) -> np.ndarray:
        """Which rows are, (contacts, 3)."""
        return np.array([[True, not contact.slides, not contact.slides] for contact in self.contacts])

    def sum_of(self, m: np.ndarray) -> np.ndarray:
        """Jᵀ m of the rows that are equations, (dofs,)."""
        return self.to_energy.T @ (self.rows.T @ (m * self.are_equations()).ravel())

    def least(self, m: np.ndarray) -> np.ndarray:
        """The multipliers with the same Jᵀ m that are least, weighted by the Delassus numbers."""
        chosen = self.are_equations().ravel()
        scale = np.array([c.delassus[[0, 1, 1]] for c in self.contacts]).ravel()[chosen] ** -0.5
        J = self.rows.toarray()[chosen]
        least = m.copy().ravel()
        least[chosen] = scale * np.linalg.lstsq(J.T * scale, J.T @ m.ravel()[chosen], rcond=1e-8)[0]
        return least.reshape(-1, 3)


def solve_on_device(solver: FeatherstoneSolver, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return λ and the multipliers of all places for contacts, for a gradient of the velocity at the end."""
    model, adjoint = solver.model, solver.adjoint
    constraints = adjoint.constraints
    launch = Launcher(model, record_tape=False, shard=Shard(model).with_starts(constraints.stage.starts))
    gradient = wp.array(g.astype(np.float32), dtype=float, device=model.device)
    contacts: newtonsim.Contacts = adjoint.contacts
    constraints.solve(launch, adjoint.smooth.L, gradient, contacts, adjoint.contact_terms, pushing=False)
    return constraints.multiplier.numpy(), constraints.rows.contact_multiplier.numpy()
