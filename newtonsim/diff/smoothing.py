"""Randomised smoothing: the gradient of a loss that is averaged over disturbed copies of a world."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.diff.bridge import Bridge, Slot
from newtonsim.diff.layout import find_array, worlds_of
from newtonsim.errors import NewtonsimError
from newtonsim.fields.updates import INVERSES, follow

if TYPE_CHECKING:
    from newtonsim.diff.inputs import Controls
    from newtonsim.diff.rollout import Rollout
    from newtonsim.scene.state import State

ORDERS = ("first", "zeroth", "mixed")

_CONFIDENCE = 1.96
"""Standard errors in the radius that holds the mean of a normal distribution 19 times out of 20."""


@dataclass(frozen=True)
class SmoothedGradient:
    """An estimate of the gradient of E[L(θ + σ ξ)] with ξ standard normal.

    Attributes:
        loss: Mean of the losses.
        loss_error: Its standard error.
        gradient: Gradient by name, of the shape of the value.
        standard_error: Standard error of each entry of it.
        share: Share of the first-order estimate, from 0 to 1.
        first_order: Mean of the worlds' gradients by name; None with order="zeroth".
        zeroth_order: Estimate from the losses alone by name.
        variances: Variance of one sample of the first- and zeroth-order estimate, summed over all entries;
            the first is NaN with order="zeroth".
        worlds: Worlds whose loss and gradient were finite; only these count.
    """

    loss: float
    loss_error: float
    gradient: dict[str, np.ndarray]
    standard_error: dict[str, np.ndarray]
    share: float
    first_order: dict[str, np.ndarray] | None
    zeroth_order: dict[str, np.ndarray]
    variances: tuple[float, float]
    worlds: int


def smoothed_gradient(
    rollout: Rollout,
    values: Mapping[str, npt.ArrayLike],
    sigma: float | Mapping[str, npt.ArrayLike],
    state: State | None = None,
    controls: Controls = None,
    order: str = "mixed",
    accuracy: float | None = None,
    antithetic: bool = True,
    seed: int | np.random.Generator = 0,
    check: bool = True,
) -> SmoothedGradient:
    """Estimate the gradient of the expected loss E[L(θ + σ ξ)], ξ standard normal, from one rollout.

    The worlds of the rollout are copies of one scene; each gets its own disturbance. The first-order estimate
    is the mean of the worlds' gradients. It is unbiased if the loss is continuous, but stiff contacts can
    give it a large variance, and jumps of the loss are invisible to it. The zeroth-order one correlates
    losses and disturbances, (L(θ + σ ξ) - L(θ - σ ξ)) ξ / 2σ; it needs no gradients and is unbiased, but its
    variance grows with the number of entries of θ. The mixture weighs both by their empirical variance and
    covariance over the worlds.

    A first-order estimate that misses jumps has little variance and would dominate. With `accuracy` γ its
    share α is limited such that the bias that it can bring in, α ‖first - zeroth‖, and the 95 % confidence
    radius of the zeroth-order estimate together stay below γ; if even α = 0 does not satisfy this, α is 0.
    The radius is that of a normal distribution instead of Bernstein's inequality.

    Source: Suh, Simchowitz, Zhang and Tedrake, "Do differentiable simulators give better policy gradients?",
    ICML 2022; antithetic samples: Owen, "Monte Carlo theory, methods and examples", 2013, chapter 8.

    Args:
        rollout: A rollout of N worlds that are copies of each other.
        values: θ: the undisturbed values of one world by name, such as {"control.joint_f": (steps, n)}; shape
            (n,), (n, width) for vectors and transforms, (steps, n) for sequences of controls. The names are
            among the rollout's `wrt`, unless `order` is "zeroth".
        sigma: Standard deviation of the disturbance, one for all or by name (a number or an array).
        state: Where all other arrays of the initial state come from; None for the model's.
        controls: Where all other inputs come from, as in a call of the rollout.
        order: "first", "zeroth" or "mixed".
        accuracy: Largest allowed error of the mixture, in units of the gradient; None for no limit.
        antithetic: Whether worlds come in pairs with opposite disturbances, which removes the even part of
            the loss from the variance of the zeroth-order estimate, and its odd part from that of the loss.
        seed: Seed of the disturbances, or a generator of random numbers.
        check: Whether to run once without disturbance first, to check that worlds are copies: for example,
            worlds that `replicate` has set apart differ in losses that depend on their positions.

    Returns:
        The estimate with its standard error. The model's arrays are restored.

    Raises:
        NewtonsimError: An argument is out of range, worlds differ in an array that is named or in their
            losses, or fewer than two samples are finite.
    """
    if order not in ORDERS:
        raise NewtonsimError(f"order: expected one of {ORDERS}, got {order!r}")
    if accuracy is not None and not accuracy > 0.0:
        raise NewtonsimError(f"accuracy: expected a positive number or None, got {accuracy!r}")
    worlds = rollout.model.world_count
    if worlds < (4 if antithetic else 2) or (antithetic and worlds % 2):
        kind = "an even number of at least 4" if antithetic else "at least 2"
        raise NewtonsimError(f"rollout: expected {kind} worlds, got {worlds}")
    names = tuple(values)
    bridge = Bridge(rollout, names, (), state, controls, differentiable=order != "zeroth")
    parameters = [_Parameter(slot, rollout, values[slot.name], bridge.state) for slot in bridge.inputs]
    scales = [p.scale(sigma[p.name] if isinstance(sigma, Mapping) else sigma) for p in parameters]
    scale = np.concatenate(scales)
    noise = _noise(np.random.default_rng(seed), worlds, len(scale), antithetic)
    center = np.concatenate([p.value.ravel() for p in parameters])
    calm = _run(bridge, parameters, np.tile(center, (worlds, 1)), False)[0] if check else None
    losses, slopes = _run(bridge, parameters, center + scale * noise, order != "zeroth")
    if calm is not None:
        _check_copies(calm, losses)
    return _estimate(losses, slopes, noise, scale, order, accuracy, antithetic, parameters)


class _Parameter:
    """Values of one name: those of one world, and where they lie in the array of all worlds.

    Args:
        slot: The array.
        rollout: The rollout.
        value: Values of one world.
        state: State that holds all other values.
    """

    def __init__(self, slot: Slot, rollout: Rollout, value: npt.ArrayLike, state: State):
        self.name, self.slot = slot.name, slot
        model, width = rollout.model, slot.width
        world = worlds_of(model, slot.place.per)
        entries = [np.flatnonzero(world == w) for w in range(model.world_count)]
        if len({len(found) for found in entries}) > 1 or not len(entries[0]):
            raise NewtonsimError(
                f"{slot.name}: it does not have the same number of entries, at least one, in every world"
            )
        self.index = (np.stack(entries)[..., None] * width + np.arange(width)).reshape(len(entries), -1)
        self.value = np.asarray(value, dtype=np.float64)
        one = (self.index.shape[1] // width, width) if width > 1 else (self.index.shape[1],)
        many = (slot.steps, *one)
        self.sequence = slot.steps > 0 and self.value.shape == many
        if self.value.shape != one and not self.sequence:
            more = f" or {many}" if slot.steps else ""
            raise NewtonsimError(
                f"{slot.name}: expected a value of shape {one}{more}, got {self.value.shape}"
            )
        holders = {"state": state, "model": model, "control": model.control()}
        self._originals: list[tuple[wp.array, wp.array]] = []
        if slot.place.owner == "model":
            changed = [find_array(slot.place, model)]
            if slot.place.attribute in INVERSES:
                changed.append(getattr(model, INVERSES[slot.place.attribute]))
            self._slot_model, self._attribute = model, slot.place.attribute
            self._originals = [(array, wp.clone(array, requires_grad=False)) for array in changed]
        base = find_array(slot.place, holders[slot.place.owner]).numpy()
        self._base = base.reshape(-1).astype(np.float32)
        self._rows = slot.steps if self.sequence else 1

    def scale(self, sigma: npt.ArrayLike) -> np.ndarray:
        """Standard deviation of each entry of the value, flat."""
        try:
            scale = np.broadcast_to(np.asarray(sigma, dtype=np.float64), self.value.shape).ravel()
        except ValueError as error:
            raise NewtonsimError(f"sigma: expected {self.name} of shape {self.value.shape}") from error
        if not (np.isfinite(scale).all() and (scale > 0.0).all()):
            raise NewtonsimError(f"sigma: expected positive numbers for {self.name}, got {sigma!r}")
        return scale

    def scatter(self, values: np.ndarray, device: wp.Device) -> wp.array:
        """Array of all worlds, flat floats, from the values of each, shape (worlds, n)."""
        full = np.tile(self._base, (self._rows, 1))
        full[:, self.index] = values.reshape(len(values), self._rows, -1).swapaxes(0, 1)
        return wp.array(full.ravel(), dtype=float, device=device)

    def gather(self, gradient: wp.array) -> np.ndarray:
        """Values of each world, shape (worlds, n), from an array of all worlds, flat floats."""
        full = gradient.numpy().astype(np.float64).reshape(self._rows, -1)
        return full[:, self.index].swapaxes(0, 1).reshape(len(self.index), -1)

    def restore(self) -> None:
        """Restore the model's arrays."""
        for array, copy in self._originals:
            wp.copy(array, copy)
        if self._originals:
            follow(self._slot_model, self._attribute)
            for array, copy in self._originals[1:]:
                wp.copy(array, copy)  # as they were to the bit


def _noise(rng: np.random.Generator, worlds: int, size: int, antithetic: bool) -> np.ndarray:
    """Standard normal disturbances (worlds, size); antithetic ones follow each other."""
    if not antithetic:
        return rng.standard_normal((worlds, size))
    half = rng.standard_normal((worlds // 2, size))
    return np.stack((half, -half), axis=1).reshape(worlds, size)


def _run(
    bridge: Bridge, parameters: list[_Parameter], values: np.ndarray, gradients: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Losses (worlds,) and gradients (worlds, n) at the values of each world."""
    parts = np.split(values, np.cumsum([p.value.size for p in parameters])[:-1], axis=1)
    arrays = [p.scatter(part, bridge.device) for p, part in zip(parameters, parts)]
    try:
        if not gradients:
            return bridge.evaluate(arrays).losses.numpy().astype(np.float64), None
        result, found = bridge.pull_back(arrays)
    finally:
        for parameter in parameters:
            parameter.restore()
    slopes = np.concatenate([p.gather(array) for p, array in zip(parameters, found)], axis=1)
    return result.losses.numpy().astype(np.float64), slopes


def _check_copies(calm: np.ndarray, losses: np.ndarray) -> None:
    """Raise an error if losses differ without disturbance, by more than rounding."""
    low, high = calm.min(), calm.max()
    spread = losses[np.isfinite(losses)].std() if np.isfinite(losses).any() else 0.0
    if high - low > 0.1 * spread + 1.0e-4 * np.abs(calm).max():
        raise NewtonsimError(
            "rollout: the worlds are not copies: without disturbance, their losses range "
            f"from {low:g} to {high:g}"
        )


def _estimate(
    losses: np.ndarray,
    slopes: np.ndarray | None,
    noise: np.ndarray,
    scale: np.ndarray,
    order: str,
    accuracy: float | None,
    antithetic: bool,
    parameters: list[_Parameter],
) -> SmoothedGradient:
    """Combine samples; a pair counts as one sample, and pairs or worlds with NaN or infinity are left out."""
    group = 2 if antithetic else 1
    fine = np.isfinite(losses)
    if slopes is not None:
        fine &= np.isfinite(slopes).all(axis=1)
    fine = np.repeat(fine.reshape(-1, group).all(axis=1), group)
    losses, noise = losses[fine], noise[fine]
    count = len(losses) // group
    if count < 2:
        raise NewtonsimError(f"rollout: losses or gradients of all but {count * group} worlds are not finite")
    first = None if slopes is None else slopes[fine].reshape(count, group, -1).mean(axis=1)
    zeroth = _score_samples(losses, noise, antithetic) / scale
    share, variances = _share(first, zeroth, order, accuracy)
    samples = zeroth if share == 0.0 or first is None else share * first + (1.0 - share) * zeroth
    means = losses.reshape(count, group).mean(axis=1)

    def named(flat: np.ndarray) -> dict[str, np.ndarray]:
        parts = np.split(flat, np.cumsum([p.value.size for p in parameters])[:-1])
        return {p.name: part.reshape(p.value.shape) for p, part in zip(parameters, parts)}

    return SmoothedGradient(
        loss=float(means.mean()),
        loss_error=float(means.std(ddof=1) / math.sqrt(count)),
        gradient=named(samples.mean(axis=0)),
        standard_error=named(samples.std(axis=0, ddof=1) / math.sqrt(count)),
        share=share,
        first_order=None if first is None else named(first.mean(axis=0)),
        zeroth_order=named(zeroth.mean(axis=0)),
        variances=variances,
        worlds=count * group,
    )


def _score_samples(losses: np.ndarray, noise: np.ndarray, antithetic: bool) -> np.ndarray:
    """Samples of σ times the zeroth-order estimate, (samples, n)."""
    if antithetic:
        return 0.5 * (losses[::2] - losses[1::2])[:, None] * noise[::2]
    # minus the mean of the other losses, which has no bias because it does not depend on the own noise
    count = len(losses)
    return (count / (count - 1)) * (losses - losses.mean())[:, None] * noise


def _share(
    first: np.ndarray | None, zeroth: np.ndarray, order: str, accuracy: float | None
) -> tuple[float, tuple[float, float]]:
    """Share of the first-order estimate, and the variances of a sample of both."""
    spread0 = zeroth - zeroth.mean(axis=0)
    count = len(zeroth)
    variance0 = float((spread0**2).sum() / (count - 1))
    if first is None:
        return 0.0, (math.nan, variance0)
    spread1 = first - first.mean(axis=0)
    variance1 = float((spread1**2).sum() / (count - 1))
    variances = (variance1, variance0)
    if order == "first":
        return 1.0, variances
    covariance = float((spread0 * spread1).sum() / (count - 1))
    whole = variance0 + variance1 - 2.0 * covariance
    share = 1.0 if whole <= 0.0 else min(1.0, max(0.0, (variance0 - covariance) / whole))
    if accuracy is not None:
        room = accuracy - _CONFIDENCE * math.sqrt(variance0 / count)
        apart = float(np.linalg.norm(first.mean(axis=0) - zeroth.mean(axis=0)))
        if share * apart > room:
            share = max(0.0, room / apart)
    return share, variances
