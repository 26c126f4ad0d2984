"""Tapes whose way back is recorded as the launches of a `Launcher` are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import warp as wp

from newtonsim.runtime import capture


class Tape(wp.Tape):
    """A tape of Warp; while launches are recorded, see `capture`, running back adds to the recording."""

    def __init__(self):
        super().__init__()
        self._conditions: list[capture.Condition] = []

    @contextlib.contextmanager
    def where_any(self, mask: wp.array) -> Iterator[None]:
        """Let a recording of the way back leave out what is put on the tape meanwhile, see `Launches`."""
        first = len(self.launches)
        yield
        if len(self.launches) > first:
            self._conditions.append((first, len(self.launches), mask))

    def backward(self, loss: wp.array | None = None, grads: dict[wp.array, wp.array] | None = None) -> None:
        """See `warp.Tape.backward`."""
        recorded = capture.collected()
        if recorded is None or loss is not None or grads is not None:
            super().backward(loss, grads)
            return
        begun: list[int] = []
        for i, launch in reversed(list(enumerate(self.launches))):
            begun += [len(recorded)] * sum(end == i + 1 for _, end, _ in self._conditions)
            if callable(launch):
                launch()
            else:
                self._record(recorded, launch)
            # of those that begin here, the narrowest is the last that ended
            ending = sorted((c for c in self._conditions if c[0] == i), key=lambda condition: condition[1])
            recorded.conditions += [(begun.pop(), len(recorded), mask) for *_, mask in ending]

    def _record(self, recorded: capture.Launches, launch: Any) -> None:
        """Record the way back through a launch; without one, Warp has warned in the first pass."""
        kernel, dim, max_blocks, inputs, outputs, device, block_dim = launch[:7]
        own = kernel.options.get("enable_backward")
        if not (kernel.module.options["enable_backward"] if own is None else own):
            return
        command: Any = wp.launch(
            kernel,
            dim,
            inputs,
            outputs,
            [self.get_adjoint(a) for a in inputs],
            [self.get_adjoint(a) for a in outputs],
            device=device,
            adjoint=True,
            record_tape=False,
            record_cmd=True,
            max_blocks=max_blocks,
            block_dim=block_dim,
        )
        recorded.append(command)
