"""Tools for tests: random models and states, poison for outputs, and a gradient check.

They ship with the package because users who write a solver, an environment or a loss need them as well.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import warp as wp

from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import JOINT_KINDS

TREE_JOINT_TYPES = (
    JointType.REVOLUTE,
    JointType.PRISMATIC,
    JointType.BALL,
    JointType.FIXED,
    JointType.FREE,
    JointType.COMPOUND,
    JointType.UNIVERSAL,
    JointType.DISTANCE,
    JointType.D6,
)
"""Every joint type, in the order in which `random_model` uses them."""

FINITE_DIFFERENCE_STEPS = (1.0e-1, 3.0e-2, 1.0e-2, 3.0e-3, 1.0e-3)
"""Relative steps of the scan: too long costs truncation, too short costs float32 cancellation (eps/step)."""

GRADIENT_FLOOR = 0.05
"""Entries below this fraction of the largest gradient of their array are judged relative to that fraction."""


def random_quaternion(rng: np.random.Generator) -> np.ndarray:
    """Draw a rotation uniformly, as a quaternion xyzw (4,)."""
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def random_transform(rng: np.random.Generator, reach: float = 0.3) -> wp.transform:
    """Draw a pose with a position in a cube of half width `reach` [m] and any rotation."""
    return wp.transform(wp.vec3(*rng.uniform(-reach, reach, 3)), wp.quat(*random_quaternion(rng)))


def random_axes(rng: np.random.Generator, count: int, skew: float = 0.3) -> np.ndarray:
    """Draw up to three unit axes (count, 3): a random orthonormal triad, bent out of square."""
    triad = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    axes = triad[:count] + skew * rng.uniform(-1.0, 1.0, (count, 3))
    return axes / np.linalg.norm(axes, axis=1, keepdims=True)


def random_inertia(rng: np.random.Generator, mass: float, reach: float = 0.2) -> np.ndarray:
    """Draw an inertia [kg m^2] about the centre of mass (3, 3) that real matter can have.

    It is that of a cloud of points, hence symmetric, positive definite and within the triangle inequality.
    """
    points = rng.uniform(-reach, reach, (8, 3))
    points -= points.mean(axis=0)
    second_moment = points.T @ points * (mass / len(points))
    return np.trace(second_moment) * np.eye(3) - second_moment


def random_model(
    seed: int,
    *,
    body_count: int = 12,
    joint_types: Iterable[JointType] = TREE_JOINT_TYPES,
    base: JointType | None = None,
    armature: float = 0.01,
    shuffle: bool = False,
    up_vector: tuple[float, float, float] = (0.0, 1.0, 0.0),
) -> Any:
    """Build one random tree of bodies in which every requested joint type occurs.

    Anchors have positions and rotations on both sides, axes are skew, centres of mass are off the body frame
    and inertias are full, so that a forgotten term of a formula is noticed.

    Args:
        seed: Seed of the generator; equal seeds give equal models.
        body_count: Number of bodies; raised to the number of joint types.
        joint_types: Joint types that occur, each at least once.
        base: Type of the joint to the world (None: drawn from `joint_types`).
        armature: Largest armature of a joint [kg m^2 or kg].
        shuffle: Add bodies and joints in random order, so that children may precede their parents.
        up_vector: Up direction of the builder.

    Returns:
        A `ModelBuilder` with one articulation.
    """
    import newtonsim

    rng = np.random.default_rng(seed)
    joint_types = [JointType(t) for t in joint_types]
    body_count = max(body_count, len(joint_types) + (base is not None))
    deck = [joint_types[i % len(joint_types)] for i in range(body_count - (base is not None))]
    rng.shuffle(deck)
    types = ([] if base is None else [JointType(base)]) + deck
    # Every third link starts a branch, the rest continue a chain: depth and branching both occur.
    parents = [-1] + [int(rng.integers(0, i)) if i % 3 == 0 else i - 1 for i in range(1, body_count)]

    builder = newtonsim.ModelBuilder(up_vector=up_vector)
    slots = rng.permutation(body_count) if shuffle else np.arange(body_count)
    link_of_slot = np.argsort(slots)
    for link in link_of_slot:
        mass = float(rng.uniform(0.5, 2.0))
        builder.add_body(
            com=wp.vec3(*rng.uniform(-0.1, 0.1, 3)),
            I_m=wp.mat33(*random_inertia(rng, mass).flatten()),
            mass=mass,
            key=f"link{link}",
        )
    builder.add_articulation("tree")
    for link in rng.permutation(body_count) if shuffle else range(body_count):
        parent = -1 if parents[link] < 0 else int(slots[parents[link]])
        _add_random_joint(builder, rng, types[link], parent, int(slots[link]), armature, f"joint{link}")
    return builder


def _add_random_joint(
    builder: Any,
    rng: np.random.Generator,
    joint_type: JointType,
    parent: int,
    child: int,
    armature: float,
    key: str,
) -> None:
    """Add one joint with random anchors, axes and armature."""
    import newtonsim

    anchors = {"parent_xform": random_transform(rng), "child_xform": random_transform(rng, 0.1)}
    if joint_type == JointType.DISTANCE:
        builder.add_joint_distance(parent, child, min_distance=-1.0, max_distance=-1.0, **anchors)
        return
    linear, angular = {
        JointType.PRISMATIC: (1, 0),
        JointType.REVOLUTE: (0, 1),
        JointType.UNIVERSAL: (0, 2),
        JointType.COMPOUND: (0, 3),
        JointType.D6: (int(rng.integers(1, 4)), int(rng.integers(1, 4))),
    }.get(joint_type, (0, 0))

    def axes(count: int) -> list:
        return [
            newtonsim.JointAxis(tuple(a), armature=float(rng.uniform(0.0, armature)))
            for a in random_axes(rng, count)
        ]

    builder.add_joint(
        joint_type,
        parent,
        child,
        linear_axes=axes(linear),
        angular_axes=axes(angular),
        key=key,
        armature=0.0 if joint_type == JointType.FREE else armature,
        **anchors,
    )


def random_coordinates(
    model: Any, seed: int, *, angle: float = 0.6, speed: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw joint coordinates of a model.

    Args:
        model: The model.
        seed: Seed of the generator.
        angle: Half range of axis coordinates [rad or m]; narrowed to the limits of each axis.
        speed: Standard deviation of velocities [rad/s or m/s].

    Returns:
        `joint_q` (joint_coord_count,) and `joint_qd` (joint_dof_count,), float32.
    """
    rng = np.random.default_rng(seed)
    types, q_start = model.joint_type.numpy(), model.joint_q_start.numpy()
    axis_start = model.joint_axis_start.numpy()
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    joint_q = np.zeros(model.joint_coord_count, dtype=np.float32)
    for joint, kind in enumerate(types):
        q = joint_q[q_start[joint] : q_start[joint + 1]]
        made_of = JOINT_KINDS[kind]
        if made_of.quaternion:
            q[: made_of.place] = rng.uniform(-angle, angle, made_of.place)
            q[made_of.place :] = random_quaternion(rng)
        elif len(q):
            axes = slice(axis_start[joint], axis_start[joint] + len(q))
            low, high = np.maximum(lower[axes], -angle), np.minimum(upper[axes], angle)
            q[:] = rng.uniform(np.minimum(low, high), np.maximum(low, high))
    return joint_q, rng.normal(scale=speed, size=model.joint_dof_count).astype(np.float32)


def random_state(model: Any, seed: int, *, angle: float = 0.6, speed: float = 1.0) -> Any:
    """Make a state with random coordinates (see `random_coordinates`) and the body poses that follow."""
    from newtonsim.kinematics import eval_fk

    state = model.state()
    joint_q, joint_qd = random_coordinates(model, seed, angle=angle, speed=speed)
    state.joint_q.assign(joint_q)
    state.joint_qd.assign(joint_qd)
    eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return state


def poison(target: Any, *names: str) -> None:
    """Fill floating-point arrays with NaN, so that an output which is never written cannot pass for a result.

    Args:
        target: An array, or an object with arrays as attributes (State, Control, Contacts).
        *names: The attributes to fill (default: all of them).
    """
    if isinstance(target, wp.array):
        values = target.numpy()
        if values.dtype.kind == "f":
            target.assign(np.full_like(values, np.nan))
        return
    for name in names or list(vars(target)):
        value = getattr(target, name)
        if isinstance(value, wp.array) and value.size > 0:
            poison(value)


def assert_gradients(
    fn: Callable[[], wp.array],
    arrays: Mapping[str, wp.array],
    *,
    rtol: float = 1.0e-3,
    samples: int = 8,
    seed: int = 0,
    steps: Iterable[float] = FINITE_DIFFERENCE_STEPS,
) -> dict[str, float]:
    """Compare the gradients of a `wp.Tape` with central differences.

    The output of `fn` is contracted with fixed random weights in float64, and a random subset of the entries
    of each array is perturbed. Every entry is differenced with a scan of steps; neighbours in the scan are
    extrapolated to step zero, and the two extrapolations that agree best make the reference: neither
    truncation nor rounding dominates there.

    Args:
        fn: Computes an output from the current contents of `arrays`; every call must compute the same.
        arrays: The arrays to differentiate with respect to, by name; they need `requires_grad=True`.
        rtol: Largest accepted relative error.
        samples: Entries checked per array.
        seed: Seed of the weights and of the subset.
        steps: Relative steps of the scan, of max(1, |entry|).

    Returns:
        The largest relative error per array name.

    Raises:
        AssertionError: If an error exceeds `rtol`, or a gradient is not finite.
    """
    rng = np.random.default_rng(seed)
    for array in arrays.values():
        array.grad.zero_()  # pyright: ignore[reportOptionalMemberAccess]
    with wp.Tape() as tape:
        output = fn()
    weights = np.ones(1, dtype=np.float32)
    if output.size > 1:
        weights = rng.uniform(0.5, 1.0, output.numpy().shape).astype(np.float32)
        weights *= rng.choice((-1.0, 1.0), weights.shape)
    tape.backward(grads={output: wp.array(weights, dtype=output.dtype, device=output.device)})
    gradients = {name: array.grad.numpy().astype(np.float64).flatten() for name, array in arrays.items()}  # pyright: ignore[reportOptionalMemberAccess]
    tape.zero()

    def loss() -> float:
        return float(np.sum(fn().numpy().astype(np.float64) * weights))

    errors = {}
    for name, array in arrays.items():
        size = gradients[name].size
        entries = rng.choice(size, min(samples, size), replace=False)
        reference = np.array([_central_difference(loss, array, int(e), tuple(steps)) for e in entries])
        scale = max(float(np.abs(reference).max(initial=0.0)), 1.0e-12)
        error = np.abs(gradients[name][entries] - reference)
        error /= np.maximum(np.abs(reference), GRADIENT_FLOOR * scale)
        errors[name] = float(error.max(initial=0.0)) if np.isfinite(error).all() else math.inf
    failed = {name: error for name, error in errors.items() if not error <= rtol}
    assert not failed, f"relative gradient errors above {rtol:g}: {failed}; all: {errors}"
    return errors


def _central_difference(
    loss: Callable[[], float], array: wp.array, entry: int, steps: tuple[float, ...]
) -> float:
    """Estimate the derivative of `loss` by one scalar entry of `array`, and restore the array."""
    original = array.numpy().copy()

    def loss_at(offset: float) -> tuple[float, float]:
        moved = original.copy()
        moved.reshape(-1)[entry] += offset
        array.assign(moved)
        return loss(), float(moved.reshape(-1)[entry])

    quotients, widths = [], []
    for step in steps:
        offset = step * max(1.0, abs(float(original.reshape(-1)[entry])))
        (high, x_high), (low, x_low) = loss_at(offset), loss_at(-offset)
        quotients.append((high - low) / (x_high - x_low))
        widths.append(x_high - x_low)
    array.assign(original)
    if len(quotients) == 1:
        return quotients[0]
    # Richardson: two quotients cancel the quadratic term, so longer steps, which drown rounding, can serve
    estimates = [
        fine + (fine - coarse) / ((w_coarse / w_fine) ** 2 - 1.0)
        for coarse, fine, w_coarse, w_fine in zip(quotients, quotients[1:], widths, widths[1:])
    ]
    if len(estimates) == 1:
        return estimates[0]
    best = int(np.argmin(np.abs(np.diff(estimates))))
    return 0.5 * (estimates[best] + estimates[best + 1])
