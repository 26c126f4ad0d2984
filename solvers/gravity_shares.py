"""Which share of its weight a body is relieved of, `gravcomp` of MJCF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from newtonsim.scene.model import Model

Shares = Mapping[int, tuple[float, Sequence[float]]]
"""By body the share, and the point of application in the body frame [m], as `ImportReport.gravcomp`."""


def gravity_shares(model: Model, shares: Shares) -> tuple[np.ndarray, np.ndarray]:
    """Return share (body_count,) and point of application in the body frame (body_count, 3) [m].

    Where worlds are equal, those of the first world's bodies are those of every world.
    """
    share, point = np.zeros(model.body_count), np.zeros((model.body_count, 3))
    sizes = np.diff(model.world_body_start)
    alike = model.world_count > 1 and len(set(sizes.tolist())) == 1
    for body, (value, place) in shares.items():
        copies = slice(body, None, int(sizes[0]) if alike else model.body_count)
        share[copies], point[copies] = value, place
    return share, point
