"""Which actuators of a model are in which world."""

from __future__ import annotations

import numpy as np

from newtonsim.scene.model import Model


def actuator_worlds(model: Model) -> np.ndarray:
    """Return the world of each actuator, that of what it acts on, int (actuator_count,)."""

    def of(index: np.ndarray, world: np.ndarray) -> np.ndarray:
        return np.append(world, -1)[index]  # an index of -1 is none

    none = np.zeros(0, np.int64)
    bodies = model.actuator_bodies.numpy()
    body = model.body_world.numpy() if model.body_count else none
    joint = model.joint_world.numpy() if model.joint_count else none
    tendon = none
    if model.tendon_count:
        # here, because few models need it, and it imports kernels
        from newtonsim.dynamics.tendon_paths import tendon_worlds

        tendon = tendon_worlds(model)
    found = [of(bodies[:, 0], body), of(bodies[:, 1], body)]
    found += [of(model.actuator_joint.numpy(), joint), of(model.actuator_tendon.numpy(), tendon)]
    return np.maximum(np.max(found, axis=0), 0).astype(np.int64)


def actuators_by_world(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the actuators in the order of the worlds, int (actuator_count,), and the first of each world.

    The second array holds the end as well, int (world_count + 1,).
    """
    return model.cached("actuators by world", _sorted)


def _sorted(model: Model) -> tuple[np.ndarray, np.ndarray]:
    worlds = actuator_worlds(model) if model.actuator_count else np.zeros(0, np.int64)
    order = np.argsort(worlds, kind="stable")
    return order, np.searchsorted(worlds[order], np.arange(model.world_count + 1))
