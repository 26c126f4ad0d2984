"""Joints that mimic others, and the values that follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping

Laws = Mapping[str, tuple[str, float, float]]
"""Leader, multiplier and offset of each joint that mimics another one."""


def with_followers(values: Mapping[str, float], laws: Laws, joints: Collection[str]) -> dict[str, float]:
    """Return values of joints with those of all that mimic them; leaders decide if both are given.

    Args:
        values: Values by name of the joint [rad or m].
        laws: Which joints mimic which; joints that mimic each other follow the first one.
        joints: Names of the existing joints.
    """
    found = {}
    for first in sorted(values, key=lambda name: len(_leaders(name, laws))):
        if first in found:
            continue
        found[first] = values[first]
        waiting = [first]
        for leader in waiting:  # grows meanwhile
            for name, (led_by, multiplier, offset) in laws.items():
                if led_by == leader and name not in found and name in joints:
                    found[name] = multiplier * found[leader] + offset
                    waiting.append(name)
    return found


def _leaders(name: str, laws: Laws) -> list[str]:
    """What a joint mimics, what that mimics, and so on."""
    chain = [name]
    while chain[-1] in laws and laws[chain[-1]][0] not in chain:
        chain.append(laws[chain[-1]][0])
    return chain[1:]
