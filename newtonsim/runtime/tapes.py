"""Tapes whose way back is recorded as the launches of a `Launcher` are."""

from __future__ import annotations

from typing import Any

import warp as wp

from newtonsim.runtime import capture


class Tape(wp.Tape):
    """A tape of Warp; while launches are recorded, see `capture`, running back adds to the recording."""

    def backward(self, loss: wp.array | None = None, grads: dict[wp.array, wp.array] | None = None) -> None:
        """See `warp.Tape.backward`."""
        recorded = capture.collected()
        if recorded is None or loss is not None or grads is not None:
            super().backward(loss, grads)
            return
        for launch in reversed(self.launches):
            if callable(launch):
                launch()
            else:
                self._record(recorded, launch)

    def _record(self, recorded: list[wp.Launch], launch: Any) -> None:
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
