"""Mirror maps of observations and actions: signed permutations of their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from newtonsim.errors import NewtonsimError

KINDS: dict[str, tuple[int, ...]] = {
    "vector": (1, -2, 3),
    "axial": (-1, 2, -3),
    "matrix": (1, -2, 3, -4, 5, -6, 7, -8, 9),
    "twist command": (1, -2, -3),
}
"""Mirror maps at the plane y = 0: of positions, velocities and forces; of angular velocities and torques; of
rotation matrices, row by row; of commands of two velocities and a turning rate."""


@dataclass(frozen=True)
class SignedPermutation:
    """Takes numbers to their mirror images: number k becomes `sign[k]` times number `index[k]`.

    Attributes:
        index: Where each number comes from, int (n,).
        sign: Its sign, 1 or -1, float (n,).

    Raises:
        NewtonsimError: It is not a signed permutation, or not an involution: the mirror image of a mirror
            image must be the original.
    """

    index: np.ndarray
    sign: np.ndarray

    def __post_init__(self) -> None:
        index, sign = np.asarray(self.index, np.int64), np.asarray(self.sign, np.float64)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "sign", sign)
        if sorted(index.tolist()) != list(range(len(index))) or sign.shape != index.shape:
            raise NewtonsimError(f"mirror: expected a permutation with as many signs, got {self.places()}")
        if not np.all(np.abs(sign) == 1.0):
            raise NewtonsimError(f"mirror: expected signs of 1 or -1, got {sign.tolist()}")
        wrong = (index[index] != np.arange(len(index))) | (sign * sign[index] != 1.0)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise NewtonsimError(
                f"mirror: applied twice it must give back every number, but number {first + 1} of "
                f"{self.places()} does not return"
            )

    @classmethod
    def of_places(cls, places: Sequence[int]) -> SignedPermutation:
        """Return that of signed places, counted from 1: (1, -2, 3) negates the second of three numbers.

        Raises:
            NewtonsimError: They are no involution.
        """
        given = np.asarray(places, np.int64).reshape(-1)
        return cls(np.abs(given) - 1, np.where(given < 0, -1.0, 1.0))

    @classmethod
    def joined(cls, parts: Sequence[SignedPermutation]) -> SignedPermutation:
        """Return that of several groups of numbers, one after the other."""
        starts = np.cumsum([0, *(len(part) for part in parts)])
        index = [part.index + start for part, start in zip(parts, starts)]
        none = np.zeros(0)
        return cls(
            np.concatenate([none.astype(int), *index]), np.concatenate([none, *(p.sign for p in parts)])
        )

    def __len__(self) -> int:
        return len(self.index)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the mirror images of rows of numbers, (..., n)."""
        return (self.sign * np.asarray(values)[..., self.index]).astype(np.asarray(values).dtype)

    def places(self) -> list[int]:
        """Return it as signed places, see `of_places`."""
        signs = np.broadcast_to(self.sign, self.index.shape) if np.size(self.sign) == 1 else self.sign
        return [int((k + 1) * s) for k, s in zip(self.index, signs)]


@dataclass(frozen=True)
class Symmetry:
    """How a task is mirrored at the plane y = 0: the mirror images of all its rollouts are rollouts.

    Attributes:
        observations: Mirror map of observations.
        actions: That of actions.
        privileged: That of privileged observations.
    """

    observations: SignedPermutation
    actions: SignedPermutation
    privileged: SignedPermutation = field(default_factory=lambda: SignedPermutation.of_places(()))

    def check(self, name: str, observations: int, privileged: int, low: np.ndarray, high: np.ndarray) -> None:
        """Raise an error unless it fits an environment.

        Args:
            name: Name of the environment.
            observations: Size of an observation.
            privileged: Size of a privileged observation.
            low: Least actions, (actions,).
            high: Greatest actions, (actions,).

        Raises:
            NewtonsimError: A map has another size, or the range of an action is not that of its mirror image.
        """
        sizes = {"observations": observations, "actions": len(low), "privileged": privileged}
        for part, size in sizes.items():
            if len(getattr(self, part)) != size:
                raise NewtonsimError(
                    f"{name}: symmetry: {part}: expected a map of {size} numbers, "
                    f"got {len(getattr(self, part))}"
                )
        ends = np.stack([self.actions(low), self.actions(high)])
        wrong = (ends.min(axis=0) != low) | (ends.max(axis=0) != high)
        if wrong.any():
            raise NewtonsimError(
                f"{name}: symmetry: actions: the range of action {int(np.flatnonzero(wrong)[0])} is not the "
                "mirror image of that of its counterpart"
            )
