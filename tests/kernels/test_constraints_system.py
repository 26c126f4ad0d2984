"""Linear systems of the backward pass against dense matrices of NumPy, with rows of every family."""

import numpy as np
import pytest
import warp as wp
from kernel_calls import DeviceFunctions

import newtonsim
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.adjoint.system import FACTORED, bounded_block, row_weight, solve_weighted
from newtonsim.kernels.constraints.adjoint.worlds import NO_ROOM, UNREACHED
from newtonsim.kernels.constraints.islands import find_islands
from newtonsim.scene.topology import topology_of
from newtonsim.solvers.featherstone.adjoint_system import system_of, transpose_of
from newtonsim.solvers.featherstone.constraints import ConstraintStage
from newtonsim.solvers.featherstone.options import ConstraintOptions

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(__name__, bounded_block, find_islands, row_weight, solve_weighted)

TOLERANCE = 1.0e-7


def bodies(device):
    """Six boxes with torsional friction, and an arm of two ball joints and a hinge."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for k in range(6):
        builder.add_shape_box(builder.add_body(origin=wp.transform((k, 0.0, 0.0), wp.quat_identity())))
    links = [builder.add_body(mass=1.0, I_m=wp.mat33(np.eye(3))) for _ in range(3)]
    builder.add_articulation()
    builder.add_joint_ball(-1, links[0])
    builder.add_joint_ball(links[0], links[1])
    builder.add_joint_revolute(links[1], links[2], axis=(0.0, 1.0, 0.0))
    builder.shape_mu_torsion[:] = [0.01] * len(builder.shape_mu_torsion)
    return builder.finalize(device, requires_grad=True)


class RandomRows:
    """Random rows of a model's bodies, a third of them repeated, and the weights of all.

    Those of the arm alone have both sides on it, but for some, and torsional friction that holds.

    Attributes:
        dense: 1 + B M Bᵀ.
    """

    def __init__(self, device, seed: int, friction: float, arm: bool = False):
        self.device, self.rng, self.friction = device, np.random.default_rng(seed), friction
        model = bodies(device)
        self.stage = ConstraintStage(model, ConstraintOptions(), keeps_moving=True)
        self.system = system_of(self.stage)
        self.tree, self.depth = topology_of(model).view, topology_of(model).max_depth
        self.arm = arm
        self.ends = [38, 41, 42] if arm else [5, 11, 17, 23, 29, 35, 42]
        self.count, self.dense = model.joint_dof_count, np.eye(model.joint_dof_count)
        self._add_dof_rows()
        self._add_pairs()
        self._add_contacts(9)

    def _chains(self, leaf) -> list[np.ndarray]:
        row, depth, chain = (getattr(self.tree, n).numpy() for n in ("dof_row", "dof_depth", "row_dof"))
        return [chain[row[d] : row[d] + depth[d] + 1] if d >= 0 else chain[:0] for d in leaf]

    def _random(self, leaf, width: int) -> tuple[np.ndarray, np.ndarray]:
        """A row as kernels store it, and as a dense one of all dofs."""
        row, J = np.zeros((2 * self.depth, width)), np.zeros((self.count, width))
        for side, chain in enumerate(self._chains(leaf)):
            entries = np.float32(self.rng.normal(size=(len(chain), width)))
            J[chain] += entries
            row[side * self.depth : side * self.depth + len(chain)] = entries
        return row, J

    def _leaf(self) -> list[int]:
        """Last dofs of two bodies, or of one and the world."""
        a, b = self.rng.choice(self.ends, 2, replace=False)
        return [a, -1 if self.rng.random() < 0.2 else b]

    def _add_dof_rows(self) -> None:
        dof = self.stage.rows.dof
        places = self.rng.choice(len(dof.source), 3, replace=False)
        B, weight, delassus = dof.B.numpy(), self.system.dof.numpy(), dof.delassus.numpy()
        for r, place in enumerate(places):
            chain = self._chains([dof.source_dof.numpy()[place], -1])[0]
            J = np.zeros(self.count)
            B[r, : len(chain)] = J[chain] = np.float32(self.rng.normal(size=len(chain)))
            delassus[r], weight[r] = J @ J, np.float32([1.0e6, 0.3][r % 2] / (J @ J))
            self.dense += weight[r].astype(float) * np.outer(J, J)
        dof.source.assign(np.append(places, np.zeros(len(dof.source) - len(places))).astype(np.int32))
        dof.world_count.assign([len(places)])
        for array, values in ((dof.B, B), (dof.delassus, delassus), (self.system.dof, weight)):
            array.assign(values)

    def _add_pairs(self) -> None:
        pair = self.stage.rows.pair
        B, leaf = pair.B.numpy(), [self._leaf() for _ in range(len(pair.kind))]
        weight, delassus = self.system.pair.numpy(), pair.delassus.numpy()
        for p in range(len(leaf)):
            row, J = self._random(leaf[p], 1)
            B[p], delassus[p] = row[:, 0], np.sum(J**2)
            weight[p] = 1.0e6 / delassus[p]
            self.dense += weight[p].astype(float) * J @ J.T
        pair.leaf.assign(np.array(leaf, np.int32))
        for array, values in ((pair.B, B), (pair.delassus, delassus), (self.system.pair, weight)):
            array.assign(values)

    def _add_contacts(self, count: int) -> None:
        """Contacts that stick and that slide, with torsional friction that holds or slides."""
        rows, system = self.stage.rows, self.system
        arrays = (rows.contact.B, rows.spin.B, rows.contact.leaf, rows.contact.delassus, rows.spin.delassus)
        B, R, leaf, delassus, turn = (a.numpy() for a in arrays)
        A, S, M = (a.numpy() for a in (system.contact, system.spin, system.mixed))
        dense = []
        for c in range(count):
            if c % 3 == 2:
                leaf[c], B[c], J = leaf[c - 1], B[c - 1], dense[c - 1]
            else:
                leaf[c] = self._leaf()
                B[c], J = self._random(leaf[c], 3)
            R[c], T = self._random(leaf[c], 3)
            dense.append(J)
            delassus[c], turn[c] = ((np.sum(X[:, 0] ** 2), np.sum(X[:, 1] ** 2)) for X in (J, T))
            A[c], S[c], M[c] = self._blocks(c % 2 == 0, delassus[c], turn[c])
            a, s, m = (np.float64(X[c]) for X in (A, S, M))
            self.dense += J @ a @ J.T + T @ s @ T.T + J @ m @ T.T
        values = (B, R, leaf, delassus, turn, A, S, M)
        for array, value in zip((*arrays, system.contact, system.spin, system.mixed), values):
            array.assign(value)
        self.contacts = ContactView()
        self.contacts.world_start = wp.array([0, len(B)], dtype=int, device=self.device)
        self.contacts.world_count = wp.array([count], dtype=int, device=self.device)

    def _blocks(self, slides: bool, delassus, turn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        A, S, M = np.zeros((3, 3, 3))
        A[0, 0] = 1.0e6 / delassus[0]
        d = self.rng.normal(size=2)
        d /= np.linalg.norm(d)
        if slides:
            A[0, 1:] = -self.friction * A[0, 0] * d
            A[1:, 1:] = self.rng.uniform(0.1, 1e4) / delassus[1] * (np.eye(2) - np.outer(d, d))
            M[0, 0] = 0.0 if self.arm else 0.2 * self.friction * A[0, 0]
            S[1:, 1:] = 0.5 / turn[1] * np.eye(2)
        else:
            A[1, 1] = A[2, 2] = 1.0e6 / delassus[1]
            S[0, 0] = 1.0e6 / turn[0]
        return A, S, M

    def solve(self, given: np.ndarray, transposed: bool = False) -> tuple[np.ndarray, int]:
        """Return x, and what was wrong with any island."""
        device, stage = self.device, self.stage
        system = transpose_of(self.system) if transposed else self.system
        call(device, find_islands, self.tree, stage.rows, self.contacts, 0, system.islands)
        system.r.assign(given)
        found = 0
        for k in range(system.islands.count.numpy()[0]):
            inputs = (self.tree, stage.rows, system, k, 0, self.depth, TOLERANCE)
            found |= int(call(device, solve_weighted, *inputs)[0])
        return system.x.numpy(), found


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_random_rows_are_solved(device, seed, transposed):
    """Though single precision, in which the factor is, has no digits for the weights of hard rows."""
    rows = RandomRows(device, seed, friction=0.2)
    given = rows.rng.normal(size=rows.count)
    x, found = rows.solve(given, transposed)
    matrix = rows.dense.T if transposed else rows.dense
    assert found == 0
    assert np.linalg.cond(matrix) > 1e6
    assert np.linalg.norm(rows.dense - rows.dense.T) > 1e4
    assert np.linalg.norm(matrix @ x - given) < 2.0 * TOLERANCE * np.linalg.norm(given)
    exact = np.linalg.solve(matrix, given)
    assert np.linalg.norm(x - exact) < 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_one_tree_are_solved_at_once(device, seed, transposed):
    """Its factor holds the weights themselves, so that one round is enough."""
    rows = RandomRows(device, seed, friction=0.2, arm=True)
    given = rows.rng.normal(size=rows.count)
    matrix = rows.dense.T if transposed else rows.dense
    assert np.linalg.cond(matrix) > 1e5
    assert np.linalg.norm(rows.dense - rows.dense.T) > 1e4
    rows.system.most = 1
    x, found = rows.solve(given, transposed)
    assert found == 0
    assert np.linalg.norm(matrix @ x - given) < 1e-8 * np.linalg.norm(given)


def test_rounds_and_room_that_do_not_suffice(device):
    rows = RandomRows(device, 0, friction=0.2)
    given = rows.rng.normal(size=rows.count)
    rows.system.most = 2
    assert rows.solve(given)[1] == int(UNREACHED)
    rows.system.factor.entry_start.assign([0, 10])
    assert rows.solve(given)[1] == int(NO_ROOM)


def test_what_is_given_nothing_or_has_no_rows_is_its_own_solution(device):
    rows = RandomRows(device, 0, friction=0.2)
    rows.system.most = 0
    x, found = rows.solve(np.zeros(rows.count))
    assert found == 0
    assert not x.any()
    for name in ("dof", "pair", "contact", "spin"):
        getattr(rows.system, name).zero_()
    given = np.float32(rows.rng.normal(size=rows.count))
    rows.system.most = 1
    x, found = rows.solve(given)
    assert found == 0
    np.testing.assert_allclose(x, given, rtol=1e-6)


def test_weights_of_rows_in_the_system_and_in_the_factor(device):
    np.testing.assert_allclose(
        call(device, row_weight, [2.0, 2.0, 0.0], [0.0, 0.5, 0.5]), [5e5, 2.0, 0.0], rtol=1e-5
    )
    A = np.array([[1e6, -3e5, 2e5], [0.0, 4.0, 2.0], [0.0, 2.0, 1.0]])
    G = call(device, bounded_block, A, [2.0, 4.0])[0]
    most = 1.0 / (FACTORED * np.array([2.0, 4.0]))
    bounded = [most[0] * np.array([1.0, -0.3, 0.2]), [0.0, 4.0, 2.0], [0.0, 2.0, 1.0]]
    np.testing.assert_allclose(G, bounded, rtol=1e-5)
    stiff = call(device, bounded_block, np.diag([3.0, 1e6, 1e6]), [2.0, 4.0])[0]
    np.testing.assert_allclose(stiff, np.diag([3.0, most[1], most[1]]), rtol=1e-5)
