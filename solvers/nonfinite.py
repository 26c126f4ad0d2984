"""Marks of worlds whose state became NaN or infinite, and warnings about them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import warp as wp

from newtonsim.kernels.particles import coupling
from newtonsim.kernels.steps import motion as steps_motion
from newtonsim.kernels.steps import reset
from newtonsim.kernels.steps.nonfinite import MarksView
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import zeros
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.scene.topology import topology_of


@dataclass(frozen=True)
class Origin:
    """The element of a model that became non-finite first.

    Attributes:
        kind: What it is: "tree", "body" or "particle".
        element: Its index.
        world: Its world.
        age: Steps that the solver has made with it, the first one included: buffers of a step are still those
            of the first one if it is 1.
        step: Number of the first of them since the solver was made, counted from 1.
        cause: Cause reported by the kernel that found it, such as `energy_coordinates.FROM_FORCES`; 0 for
            nothing.
    """

    kind: str
    element: int
    world: int
    age: int
    step: int
    cause: int


class NonfiniteWorlds:
    """Worlds of a model that became NaN or infinite.

    Args:
        model: The model.

    Attributes:
        worlds: Whether each is non-finite, until it is reset, bool, shape (world_count,).
        any: 1 if there is one that `report` has not seen, shape (1,).
        alarm: The same, to be read on the CPU; None on others.
    """

    def __init__(self, model: Model):
        self.model = model
        self.worlds = zeros(model.world_count, dtype=bool, device=model.device)
        self.any = zeros(1, dtype=int, device=model.device)
        # on the CPU the array is read without a copy, which is cheap enough for every step
        self.alarm = memoryview(cast("np.ndarray", self.any.numpy())) if model.device.is_cpu else None
        self._reported = np.zeros(model.world_count, dtype=bool)

        self._marks: dict[str, tuple[MarksView, wp.array]] = {}

    def marks(self, kind: str, world: wp.array) -> MarksView:
        """Return what kernels need to mark elements.

        Args:
            kind: What the elements are: "tree", "body" or "particle".
            world: World of each, shape (n,).
        """
        if kind not in self._marks:
            device = self.model.device
            view = MarksView()
            view.world, view.any = self.worlds, self.any
            view.steps = zeros(1, dtype=int, device=device)
            view.age = zeros(len(world), dtype=int, device=device)
            view.cause = zeros(len(world), dtype=int, device=device)
            self._marks[kind] = (view, world)
        return self._marks[kind][0]

    def mark(self, launch: Launcher, state: State) -> None:
        """Mark the worlds with particles or bodies whose positions are non-finite in a state."""
        model = self.model
        if model.particle_count:
            marks = self.marks("particle", model.particle_world)
            launch(
                coupling.mark_nonfinite,
                "particle",
                reads=dict(world=model.particle_world, x=state.particle_q, v=state.particle_qd),
                writes=dict(marks=marks),
            )
        if model.body_count:
            launch(
                steps_motion.mark_bodies,
                "body",
                reads=dict(world=model.body_world, body_qd=state.body_qd),
                writes=dict(marks=self.marks("body", model.body_world)),
            )

    def report(self, explain: Callable[[Origin], str] | None = None) -> None:
        """Warn once of each; waits for the device.

        Args:
            explain: Returns what the solver knows about how an element broke, to follow its name.
        """
        found = self.any.numpy() if self.alarm is None else self.alarm
        if not found[0]:
            return
        # an array operation would be recorded if a step is being captured
        if self.alarm is None:
            self.any.zero_()
        else:
            self.alarm[0] = 0
        now = self.worlds.numpy().copy()
        fresh = np.flatnonzero(now & ~self._reported)
        self._reported = now
        if len(fresh):
            named = ", ".join(map(str, fresh[:8])) + (", ..." if len(fresh) > 8 else "")
            warnings.warn(
                f"{len(fresh)} of {len(now)} worlds have become non-finite (NaN or infinite): {named}; "
                f"{self._beginning(fresh, explain)}shorten the step, check inputs, and reset these worlds",
                RuntimeWarning,
                stacklevel=4,
            )

    def origin(self, worlds: np.ndarray) -> Origin | None:
        """Return the origin in the worlds (n,), which has been non-finite longest; None if all is finite.

        Waits for the device.
        """
        oldest = None
        for kind, (view, world_of) in self._marks.items():
            owner = world_of.numpy()
            age = np.where(np.isin(owner, worlds), view.age.numpy(), 0)
            element = int(np.argmax(age)) if age.size else 0
            if not age.size or not age[element] or (oldest is not None and oldest.age >= age[element]):
                continue
            world, step = owner[element], view.steps.numpy()[0] - age[element] + 1
            cause = view.cause.numpy()[element]
            oldest = Origin(kind, element, *map(int, (world, age[element], step, cause)))
        return oldest

    def _beginning(self, worlds: np.ndarray, explain: Callable[[Origin], str] | None) -> str:
        """Return the part of the warning that says where and when it began."""
        origin = self.origin(worlds)
        if origin is None:
            return ""
        if origin.kind == "particle":
            what = f"particle {origin.element}"
        else:
            body = origin.element if origin.kind == "body" else _root_body(self.model, origin.element)
            what = f"body '{self.model.body_key[body]}'"
            if origin.kind == "tree":
                what = f"the tree of {what}"
        told = "" if explain is None else explain(origin)
        return f"it started in world {origin.world}, in step {origin.step} of the solver, with {what}{told}; "

    def reset(self, world_mask: wp.array | None) -> None:
        """Forget the marks of the masked worlds, bool, shape (world_count,), or of all."""
        if world_mask is None:
            self.worlds.zero_()
        else:
            self.forget(Launcher(self.model, record_tape=False), world_mask)
        self.report_anew()

    def forget(self, launch: Launcher, world_mask: wp.array) -> None:
        """Clear the marks of the masked worlds of a launcher; `report` no longer reports them."""
        launch(reset.clear_flags, "world", reads=dict(mask=world_mask), writes=dict(flags=self.worlds))

    def report_anew(self) -> None:
        """Let `report` warn again of worlds that have lost their marks; on a GPU it does not."""
        if self.model.device.is_cpu:
            self._reported &= self.worlds.numpy()


def _root_body(model: Model, tree: int) -> int:
    """Return the body of a tree that is attached to the world."""
    view = topology_of(model).view
    joint = view.joint.numpy()[view.joint_start.numpy()[tree]]
    return int(model.joint_child.numpy()[joint])
