"""Networks of policies, and their observations. Needs torch, which is imported on first use."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from newtonsim.scene.enums import JointType
from newtonsim.scene.joint_types import FLOATING

if TYPE_CHECKING:
    import torch

    from newtonsim.scene.model import Model

_TURN = 2.0 * np.pi


def import_torch() -> Any:
    """Return torch.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("SHAC needs torch: pip install 'newtonsim[torch]'") from error
    return torch


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Make torch use one thread: networks of this size are too small for several."""
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_network(inputs: int, outputs: int, hidden: int) -> Any:
    """Two hidden layers; the output is small at first."""
    nn = import_torch().nn
    net = nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ELU(),
        nn.LayerNorm(hidden),
        nn.Linear(hidden, hidden),
        nn.ELU(),
        nn.Linear(hidden, outputs),
    )
    nn.init.orthogonal_(net[-1].weight, 0.01)
    return net


@functools.cache
def _actor_class() -> Any:
    torch = import_torch()

    class Policy(torch.nn.Module):
        """Means of actions before a tanh, their deviations, and the size of what is seen."""

        def __init__(self, seen: torch.Tensor, outputs: int, hidden: int):
            super().__init__()
            self.mean = make_network(seen.shape[1], outputs, hidden)
            self.log_deviation = torch.nn.Parameter(torch.full((outputs,), -1.0))
            self.register_buffer("middle", seen.mean(dim=0))
            self.register_buffer("size", seen.std(dim=0, correction=0).clamp(min=0.1))

        def forward(self, seen: torch.Tensor) -> torch.Tensor:
            return self.mean(self.normalise(seen))

        def deviation(self) -> torch.Tensor:
            return self.log_deviation.exp()

        def normalise(self, seen: torch.Tensor) -> torch.Tensor:
            return ((seen - self.middle) / self.size).clamp(-10.0, 10.0)

        def see(self, seen: torch.Tensor) -> None:
            """Update the running statistics with observations (..., n)."""
            flat = seen.flatten(0, -2)
            self.middle.lerp_(flat.mean(dim=0), 0.02)
            self.size.lerp_(flat.std(dim=0, correction=0).clamp(min=0.1), 0.02)

        def weights(self) -> dict[str, torch.Tensor]:
            return {name: value.clone() for name, value in self.state_dict().items()}

    return Policy


def make_actor(seen: torch.Tensor, outputs: int, hidden: int) -> Any:
    """Return a policy for observations (worlds, n)."""
    return _actor_class()(seen, outputs, hidden)


def quaternion_entries(model: Model) -> np.ndarray:
    """Indices of the coordinates that are parts of quaternions."""
    starts, found = model.joint_q_start.numpy(), []
    for joint, kind in enumerate(model.joint_type.numpy()):
        first = int(starts[joint]) + (3 if kind in FLOATING else 0)
        if kind in FLOATING or kind == JointType.BALL:
            found += range(first, first + 4)
    return np.array(found, int)


def turning_entries(model: Model) -> np.ndarray:
    """Indices of the coordinates that are angles of axes on which a full turn is possible."""
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    starts, found = model.joint_q_start.numpy(), []
    for joint, kind in enumerate(model.joint_type.numpy()):
        if kind in FLOATING or kind == JointType.BALL:
            continue
        linear, angular = model.joint_axis_dim.numpy()[joint]
        for k in range(linear, linear + angular):
            axis = model.joint_axis_start.numpy()[joint] + k
            if upper[axis] - lower[axis] >= _TURN:
                found.append(int(starts[joint]) + k)
    return np.array(found, int)


def default_observation(model: Model) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Coordinates, with cosine and sine of hinges without limits, and velocities."""
    torch = import_torch()
    turning = turning_entries(model)
    plain = np.setdiff1d(np.arange(model.joint_coord_count), turning)

    def observe(q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
        angles = q[:, turning]
        return torch.cat([q[:, plain], torch.cos(angles), torch.sin(angles), qd], dim=1)

    return observe
