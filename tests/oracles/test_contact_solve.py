"""Steps of boxes and cylinders in frictional contact against an independent solution in double precision.

The contact points are those that the collision pass found. All else is built anew: masses and inertias from
the geometry, the Delassus matrix, and the solution of Signorini's and Coulomb's laws by another method.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, Run, diagonal_inertia, rotation_matrices, z_up

# gap [m] below which a contact counts as closed, and depth that is left alone: the defaults
SKIN = 5.0e-5
SLOP = 1.0e-4
DT = 1.0 / 240.0
LENGTH = 0.1  # that makes velocities of rotations
# error at rest [m/s]; what it may be more in motion, over the fastest velocity, as regularised contacts let
# pass a little where something slides; and with sweeps alone
SPEED_ERROR = 3.0e-4
MOVING_SHARE = 4.0e-3
SWEEP_ERROR = 1.0e-5


@dataclass
class Scene:
    """Solids on the ground; their centres are their origins.

    Attributes:
        mu: Coefficient of friction of everything.
        inertias: Mass [kg] and principal moments of inertia [kg m²] of each body.
        speeds: Velocities (ω, v) at the start, by body.
    """

    mu: float
    inertias: list[tuple[float, np.ndarray]] = field(default_factory=list)
    speeds: dict[int, list[float]] = field(default_factory=dict)

    def __post_init__(self):
        self.builder = z_up()
        self.builder.set_ground_plane(mu=self.mu, restitution=0.0)

    def add_box(
        self, place: tuple[float, float, float], half: tuple[float, float, float], mass: float
    ) -> None:
        squares = np.square(half)
        body = self._add_body(place, mass, mass / 3.0 * (squares.sum() - squares))
        self.builder.add_shape_box(body, hx=half[0], hy=half[1], hz=half[2], **self._surface)

    def add_cylinder(
        self, place: tuple[float, float, float], radius: float, half: float, mass: float
    ) -> None:
        """A cylinder along y."""
        across = mass * (0.25 * radius**2 + half**2 / 3.0)
        moments = np.array([across, 0.5 * mass * radius**2, across])
        body = self._add_body(place, mass, moments)
        self.builder.add_shape_cylinder(body, radius=radius, half_height=half, **self._surface)

    @property
    def _surface(self) -> dict[str, float]:
        return {"mu": self.mu, "restitution": 0.0, "density": 0.0}

    def _add_body(self, place: tuple[float, float, float], mass: float, moments: np.ndarray) -> int:
        self.inertias.append((mass, moments))
        pose = wp.transform(place, wp.quat_identity())
        return self.builder.add_body(origin=pose, mass=mass, I_m=diagonal_inertia(*moments))


def stack(heavy: float, speed: float) -> Scene:
    """Three boxes on each other, each `heavy` times as heavy as the one below; the highest is in motion."""
    scene = Scene(0.5)
    for k in range(3):
        scene.add_box((0.01 * k, 0.02 * k, 0.1 + 0.2 * k), (0.15, 0.12, 0.1), heavy**k)
    scene.speeds[2] = [0.0, 0.0, 0.0, speed, 0.5 * speed, 0.0]
    return scene


def wall() -> Scene:
    """A box that slides along a wall, into which it is pushed."""
    scene = Scene(0.4)
    scene.add_box((0.0, 0.0, 0.1), (0.1, 0.15, 0.1), 2.0)
    scene.builder.add_shape_box(-1, pos=(0.6, 0.0, 0.5), hx=0.5, hy=5.0, hz=0.5, **scene._surface)
    scene.speeds[0] = [0.0, 0.0, 0.0, 0.5, 1.0, 0.0]
    return scene


def pyramid(mu: float) -> Scene:
    """A cylinder on two others, which it pushes apart if there is little friction."""
    scene, radius = Scene(mu), 0.1
    for x in (-radius, radius):
        scene.add_cylinder((x, 0.0, radius), radius, 0.2, 1.0)
    scene.add_cylinder((0.0, 0.0, radius * (1.0 + math.sqrt(3.0))), radius, 0.2, 3.0)
    return scene


SCENES = {
    "stack at rest": lambda: stack(1.0, 0.0),
    "heavy on light": lambda: stack(10.0, 0.0),
    "sliding stack": lambda: stack(1.0, 1.0),
    "wall": wall,
    "slippery pyramid": lambda: pyramid(0.1),
    "rough pyramid": lambda: pyramid(0.6),
}


def frame_of(n: np.ndarray) -> np.ndarray:
    """A unit normal and two tangents as rows, right-handed."""
    tangent = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    tangent /= np.linalg.norm(tangent)
    return np.array([n, tangent, np.cross(n, tangent)])


class Problem:
    """Contacts of a step: v = W p + free, with v of contact c in the rows 3c .. 3c + 2, normal first.

    Args:
        scene: The scene.
        run: The run after the step.
        body_q: Poses before the step.
        v_free: Velocities without contacts, (bodies, 6).

    Attributes:
        J: Rows by bodies, (3 C, 6 N).
        weight: Inverse of the inertia, (6 N, 6 N).
        target: Normal velocity that each contact wants [m/s].
    """

    def __init__(self, scene: Scene, run: Run, body_q: np.ndarray, v_free: np.ndarray):
        contacts, count = run.solver.contacts, int(run.solver.contacts.rigid_contact_count.numpy()[0])
        owner = run.model.shape_body.numpy()
        bodies, turned = len(scene.inertias), rotation_matrices(body_q[:, 3:])
        self.mu, self.count, self.frames = scene.mu, count, np.zeros((count, 3, 3))
        distance = contacts.rigid_contact_distance.numpy()[:count].astype(float)
        assert distance.min() > -SLOP
        self.target = np.where(distance < SKIN, 0.0, -distance / run.dt)
        self.J = np.zeros((3 * count, 6 * bodies))
        sides = ("rigid_contact_shape", "rigid_contact_point", "rigid_contact_offset")
        read = [[getattr(contacts, f"{name}{side}").numpy() for name in sides] for side in range(2)]
        for c in range(count):
            body, points = [], []
            for shape, point, offset in read:
                b = owner[shape[c]]
                local = point[c].astype(float) + offset[c]
                body.append(b)
                points.append(body_q[b, :3] + turned[b] @ local if b >= 0 else local)
            self.frames[c] = frame_of(contacts.rigid_contact_normal.numpy()[c].astype(float))
            for b, sign in zip(body, (1.0, -1.0)):
                if b >= 0:
                    arm = np.mean(points, axis=0) - body_q[b, :3]
                    rows = self.J[3 * c : 3 * c + 3, 6 * b : 6 * b + 6]
                    rows[:] = sign * np.hstack([np.cross(arm, self.frames[c]), self.frames[c]])
        self.weight = np.zeros((6 * bodies, 6 * bodies))
        for b, (mass, moments) in enumerate(scene.inertias):
            self.weight[6 * b : 6 * b + 3, 6 * b : 6 * b + 3] = (
                turned[b] @ np.diag(1.0 / moments) @ turned[b].T
            )
            self.weight[6 * b + 3 : 6 * b + 6, 6 * b + 3 : 6 * b + 6] = np.eye(3) / mass
        self.free = self.J @ v_free.reshape(-1)
        self.W = self.J @ self.weight @ self.J.T

    def solve(self, most: int = 40000, tolerance: float = 1.0e-10) -> np.ndarray:
        """Impulses (3 C), by the alternating direction method of multipliers, with the shift of de Saxcé.

        That shift s = μ |v_t| along the normal makes the velocity v + s of a sliding contact an element of
        the dual cone (Carpentier, Le Lidec, Montaut, "From compliant to rigid contact simulation", 2024; the
        penalty follows the ratio of both residuals).
        """
        size, W = 3 * self.count, self.W
        free = self.free - np.insert(np.zeros((self.count, 2)), 0, self.target, axis=1).reshape(-1)
        largest = np.linalg.eigvalsh(W).max()
        proximal, penalty = 1.0e-6 * largest, 1.0e-2 * largest
        p, y, u, shift = np.zeros((4, size))
        inverse = np.linalg.inv(W + (proximal + penalty) * np.eye(size))
        for k in range(most):
            last_p, last_y = p, y
            p = inverse @ (proximal * p + penalty * y + u - free - shift)
            y = self.projected(p - u / penalty)
            u = u - penalty * (p - y)
            shift.reshape(-1, 3)[:, 0] = self.mu * np.linalg.norm(u.reshape(-1, 3)[:, 1:], axis=1)
            primal = largest * np.abs(p - y).max()
            dual = np.abs(penalty * (y - last_y) + proximal * (p - last_p)).max()
            if k % 10 == 0 and self.misses(y) < tolerance:
                return y
            if k % 50 == 49 and max(primal, dual) > 10.0 * min(primal, dual):
                penalty *= 2.0 if primal > dual else 0.5
                inverse = np.linalg.inv(W + (proximal + penalty) * np.eye(size))
        raise AssertionError(f"the reference misses the laws by {self.misses(y)} m/s")

    def projected(self, p: np.ndarray) -> np.ndarray:
        """The nearest impulses within the cones of friction."""
        triples = p.reshape(-1, 3)
        normal, size = triples[:, 0], np.linalg.norm(triples[:, 1:], axis=1)
        push = np.maximum(0.0, (normal + self.mu * size) / (1.0 + self.mu**2))
        inside = size <= self.mu * normal
        share = np.where(inside, 1.0, self.mu * push / np.maximum(size, 1.0e-300))
        return np.column_stack([np.where(inside, normal, push), share[:, None] * triples[:, 1:]]).reshape(-1)

    def misses(self, p: np.ndarray) -> float:
        """By how much [m/s] impulses (3 C) miss the laws of Signorini and Coulomb.

        A velocity less its target is taken off the impulse; what pulls is cut off, and friction beyond the
        bound that the normal impulse sets. Where the laws hold, nothing has changed.
        """
        scale = np.diag(self.W).reshape(-1, 3).max(axis=1)
        v, p = (self.W @ p + self.free).reshape(-1, 3), p.reshape(-1, 3)
        push = np.maximum(0.0, p[:, 0] - (v[:, 0] - self.target) / scale)
        rub = p[:, 1:] - v[:, 1:] / scale[:, None]
        bound = self.mu * np.maximum(0.0, p[:, 0])
        rub *= np.minimum(1.0, bound / np.maximum(np.linalg.norm(rub, axis=1), 1.0e-300))[:, None]
        return float((scale[:, None] * np.abs(np.column_stack([push, rub]) - p)).max())


def check_steps(scene: Scene, run: Run, steps: int, least: float, share: float) -> None:
    """Compare the velocities of some steps; the impulses need not be the only ones that solve the laws.

    Args:
        scene: The scene.
        run: A run of it.
        steps: How many.
        least: Largest error of a velocity, and of the laws, where nothing moves [m/s].
        share: What it may be more over the fastest velocity.
    """
    bodies = len(scene.inertias)
    start, scale = np.zeros((bodies, 6)), np.array([LENGTH] * 3 + [1.0] * 3)
    for body, speed in scene.speeds.items():
        start[body] = speed
    run.start(joint_qd=start)
    for step in range(steps):
        body_q, before = run.body_q.astype(float), run.body_qd.astype(float)
        run.step()
        v_free = run.solver.smooth.v_free.numpy().reshape(bodies, 6).astype(float)
        np.testing.assert_allclose(v_free[:, 3:], before[:, 3:] - [0.0, 0.0, GRAVITY * DT], atol=1e-5)
        if step == 0:
            np.testing.assert_allclose(v_free[:, :3], before[:, :3], atol=1e-5)
        problem = Problem(scene, run, body_q, v_free)
        after = v_free.reshape(-1) + problem.weight @ problem.J.T @ problem.solve()
        after = after.reshape(bodies, 6)
        allowed = least + share * np.abs(scale * np.stack([before, after])).max()
        assert np.abs(scale * (run.body_qd - after)).max() < allowed
        force = run.solver.contact_forces().numpy()[: problem.count].astype(float)
        impulse = DT * np.einsum("cij,cj->ci", problem.frames, force).reshape(-1)
        assert problem.misses(impulse) < allowed


@pytest.mark.parametrize("name", SCENES)
def test_steps_satisfy_the_laws_of_contact_and_friction(device, name):
    scene = SCENES[name]()
    run = Run(scene.builder.finalize(device), DT)
    check_steps(scene, run, 4, SPEED_ERROR, MOVING_SHARE)


def test_heavy_body_slides_on_light_ones(device):
    """Each box three times as heavy as the one below; the regularisation lets less than 2 cm/s pass."""
    scene = stack(3.0, 1.0)
    check_steps(scene, Run(scene.builder.finalize(device), DT), 1, SPEED_ERROR, 2.0e-2)


@pytest.mark.parametrize("name", ["sliding stack", "wall", "slippery pyramid", "rough pyramid"])
def test_many_sweeps_satisfy_the_laws_too(device, name):
    """Where nothing is regularised, what is left is the tolerance of the sweeps."""
    scene = SCENES[name]()
    options = {"factorizations": 0, "iterations": 4000, "tolerance": 1.0e-7}
    check_steps(scene, Run(scene.builder.finalize(device), DT, **options), 3, SWEEP_ERROR, 0.0)
