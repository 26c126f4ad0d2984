"""The modules of a pair of worlds with their clients filled in."""

import pybullet

import newtonsim.pybullet_compat as compat


class Bound:
    """A module whose functions go to one client."""

    def __init__(self, module, client: int):
        self.module, self.client = module, client

    def __getattr__(self, name: str):
        found = getattr(self.module, name)
        if not callable(found) or isinstance(found, type):
            return found
        return lambda *args, **keywords: found(*args, **keywords, physicsClientId=self.client)


def bind(pair) -> tuple[Bound, Bound]:
    """Return our module and the real one, bound to the clients of a `pybullet_both.Both`."""
    real, ours = pair.ids
    return Bound(compat, ours), Bound(pybullet, real)
