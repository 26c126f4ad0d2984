"""Rows of anchors along directions in which bodies can hardly move: singular values by NumPy."""

import numpy as np
import warp as wp

from newtonsim.kernels.constraints.anchor_rows import RIGID, SOFT, separate_directions
from newtonsim.kernels.views.pair_rows import PAIR_ANGLES, PAIR_SPAN, PairRowView

DEPTH = 6


def separated(B: np.ndarray, target: np.ndarray, kinds: list[int], device, enabled: bool = True) -> dict:
    """What the kernel makes of rows of one constraint whose forces are along the axes of the world."""
    count = len(kinds)
    rows = PairRowView()
    rows.kind = wp.array(kinds, dtype=int, device=device)
    rows.constraint = wp.zeros(count, dtype=int, device=device)
    rows.B = wp.array(B, dtype=float, device=device)
    rows.target_lower = wp.array(target, dtype=float, device=device)
    rows.target_upper = wp.array(target, dtype=float, device=device)
    rows.push = wp.array(3.0 * target, dtype=float, device=device)
    rows.free = wp.array(4.0 * target, dtype=float, device=device)
    axes = np.eye(3)[np.arange(count) % 3]
    rows.force = wp.array(axes, dtype=wp.vec3, device=device)
    rows.torque = wp.array(2.0 * axes, dtype=wp.vec3, device=device)
    rows.delassus = wp.array(np.sum(B**2, axis=1) * enabled, dtype=float, device=device)
    rows.softness = wp.zeros(count, dtype=float, device=device)
    rows.impulse = wp.full(count, 1.0, dtype=float, device=device)
    wp.launch(separate_directions, count, [0, DEPTH, rows], device=device)
    names = (
        "B",
        "target_lower",
        "target_upper",
        "push",
        "force",
        "torque",
        "delassus",
        "softness",
        "impulse",
    )
    return {name: getattr(rows, name).numpy() for name in names}


def uneven_rows(values: list[float], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows (3, 2 depth) with given singular values, and their left singular vectors in columns (3, 3)."""
    U = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    V = np.linalg.qr(rng.normal(size=(2 * DEPTH, 3)))[0]
    return U @ np.diag(values) @ V.T, U


def test_directions_are_those_of_a_singular_value_decomposition(device):
    rng = np.random.default_rng(0)
    for values in ([1.0, 0.5, 0.02], [3.0, 0.01, 0.03], [0.02, 2.0, 0.0], [1.0, 0.0, 0.0]):
        B, U = uneven_rows(values, rng)
        target = rng.normal(size=3)
        found = separated(B, target, [PAIR_SPAN] * 3, device)
        E = found["force"]  # a row for each direction
        np.testing.assert_allclose(E @ E.T, np.eye(3), atol=1e-5)
        np.testing.assert_allclose(found["torque"], 2.0 * E, atol=1e-5)
        np.testing.assert_allclose(found["B"], E @ B, atol=1e-5)
        np.testing.assert_allclose(found["target_lower"], E @ target, atol=1e-5)
        np.testing.assert_allclose(found["target_upper"], E @ target, atol=1e-5)
        np.testing.assert_allclose(found["push"], 3.0 * E @ target, atol=1e-5)
        squares = np.sort(np.square(values))
        order = np.argsort(np.sum(found["B"] ** 2, axis=1))
        np.testing.assert_allclose(np.sort(found["delassus"]), squares, rtol=1e-3, atol=1e-12)
        # equal singular values have no directions of their own
        if len(set(values)) == 3:
            along = np.abs(np.sum(E[order] * U.T[np.argsort(values)], axis=1))
            np.testing.assert_allclose(along, 1.0, atol=1e-3)
        gone = found["delassus"] == 0.0
        assert gone.sum() == np.sum(squares <= RIGID * squares[-1])
        assert not found["impulse"][gone].any()
        assert found["impulse"][~gone].all()
        kept = found["delassus"][~gone]
        soft = SOFT * squares[-1]
        np.testing.assert_allclose(found["softness"][~gone], soft * (soft / (kept + soft)) ** 4, rtol=1e-3)


def test_other_rows_stay_as_they_are(device):
    rng = np.random.default_rng(1)
    even, _ = uneven_rows([1.0, 0.5, 0.2], rng)
    flat, _ = uneven_rows([1.0, 0.5, 0.0], rng)
    target = np.ones(3)
    for B, kinds, enabled in (
        (even, [PAIR_SPAN] * 3, True),
        (flat, [PAIR_ANGLES] * 3, True),
        (flat, [PAIR_SPAN, PAIR_SPAN, PAIR_ANGLES], True),
        (flat, [PAIR_SPAN] * 3, False),
    ):
        found = separated(B, target, kinds, device, enabled)
        assert np.array_equal(found["B"], B.astype(np.float32))
        assert np.array_equal(found["force"], np.eye(3))
        assert not found["softness"].any()
    # the rows of the rotation follow those of the anchors
    found = separated(np.vstack([flat, flat]), np.ones(6), [PAIR_SPAN] * 3 + [PAIR_ANGLES] * 3, device)
    assert np.array_equal(found["B"][3:], flat.astype(np.float32))
    assert not np.array_equal(found["B"][:3], flat.astype(np.float32))
