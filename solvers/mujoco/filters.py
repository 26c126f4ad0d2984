"""Which shapes may touch, in MuJoCo's terms: contact bits, excluded bodies and explicit pairs.

MuJoCo lets two geoms touch if the `contype` of one and the `conaffinity` of the other share a bit, unless
their bodies are welded together, excluded, or neighbours in the tree with none of them part of the world.
Explicit pairs touch in any case. Source: MuJoCo's documentation, "Computation", section "Selection".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.scene.enums import JointType
from newtonsim.solvers.mujoco.source import HostModel, Selection

_MOST_BITS = 31


class ContactBits:
    """Contact bits of shapes.

    Args:
        host: The model.
        chosen: The shapes.
        use_groups: Whether collision groups and flags count; if not, everything may touch everything.

    Raises:
        ModelError: There are more groups than bits.
    """

    def __init__(self, host: HostModel, chosen: Selection, use_groups: bool):
        self._host, self._use_groups = host, use_groups
        self._rules = host.model.contact_rules
        self._ground = host.model.ground_shape
        world, group = host.shape_world, self._rules.group
        local = [shape for shape in chosen.shapes.tolist() if world[shape] >= 0]
        used = [s for s in local if self._rules.collides[s] or self._rules.meets_ground[s]]
        kinds = {(int(world[s]), int(group[s])) for s in used if use_groups}
        self._bit_of = {kind: 1 << place for place, kind in enumerate(sorted(kinds))}
        # the ground needs a bit of its own only if a shape meets it and nothing else, or all but it
        odd = any(self._rules.collides[s] != self._rules.meets_ground[s] for s in used)
        self._ground_bit = 1 << len(kinds) if odd and use_groups and self._ground >= 0 else 0
        if len(kinds) + bool(self._ground_bit) > _MOST_BITS:
            raise ModelError(
                f"there are {len(kinds)} groups of shapes, but MuJoCo distinguishes at most {_MOST_BITS}"
            )

    def of(self, shape: int) -> tuple[int, int]:
        """Return contype and conaffinity of a shape."""
        if not self._use_groups or not self._bit_of:
            return 1, 1
        world, group = int(self._host.shape_world[shape]), int(self._rules.group[shape])
        if shape == self._ground and self._ground_bit:
            return self._ground_bit, self._ground_bit
        matching = [
            bit
            for (w, g), bit in self._bit_of.items()
            if (world < 0 or w == world) and (group == -1 or g in (-1, group))
        ]
        affinity = sum(matching)
        if world < 0:
            return (affinity if len(self._bit_of) == 1 else 0), affinity
        offered = self._bit_of[world, group]
        if not self._ground_bit:
            return offered, affinity
        if not self._rules.collides[shape]:
            offered = affinity = 0
        return offered, affinity | (self._ground_bit if self._rules.meets_ground[shape] else 0)


@dataclass(frozen=True)
class Filters:
    """What bits cannot say.

    Attributes:
        excluded: Pairs of bodies of the model whose shapes do not touch, -1 for the world.
        pairs: Pairs of shapes on such bodies that touch all the same.
        free_parents: Whether MuJoCo's own filter between neighbours in the tree has to be off.
    """

    excluded: list[tuple[int, int]]
    pairs: list[tuple[int, int]]
    free_parents: bool


def find_filters(
    host: HostModel, shapes: Iterable[int], bits: ContactBits, carried: Mapping[int, int]
) -> Filters:
    """Translate the model's filter pairs.

    Args:
        host: The model.
        shapes: Shapes that are written and meet something.
        bits: Their contact bits.
        carried: Bodies that are one with another in MuJoCo.
    """
    rules, count = host.model.contact_rules, host.model.shape_count
    by_body: dict[int, list[int]] = {}
    for shape in shapes:
        by_body.setdefault(int(host.shape_body[shape]), []).append(shape)
    filtered: dict[tuple[int, int], set[tuple[int, int]]] = {}
    written = {shape for members in by_body.values() for shape in members}
    for a, b in zip(*(part.tolist() for part in np.divmod(rules.filter_keys, max(count, 1)))):
        if a in written and b in written:
            low, high = sorted((int(host.shape_body[a]), int(host.shape_body[b])))
            filtered.setdefault((low, high), set()).add((a, b))
    excluded, pairs = [], []
    for ends, blocked in filtered.items():
        remaining = _touching(host, by_body, ends, bits) - blocked
        if ends[0] != ends[1] and len(remaining) < len(_touching(host, by_body, ends, bits)):
            excluded.append(ends)
            pairs.extend(sorted(remaining))
    neighbours = _neighbours(host, by_body, carried)
    free = any(
        (ends not in excluded and _touching(host, by_body, ends, bits)) or _any_on(pairs, host, ends)
        for ends in neighbours
    )
    if not free:
        excluded = [ends for ends in excluded if ends not in neighbours]
    return Filters(excluded, pairs, free)


def _any_on(pairs: list[tuple[int, int]], host: HostModel, ends: tuple[int, int]) -> bool:
    return any(sorted((int(host.shape_body[a]), int(host.shape_body[b]))) == list(ends) for a, b in pairs)


def _touching(
    host: HostModel, by_body: dict[int, list[int]], ends: tuple[int, int], bits: ContactBits
) -> set[tuple[int, int]]:
    """Pairs of shapes (low index first) of two bodies that may touch as far as bits and welds say."""
    rigid = host.model.contact_rules.rigid
    found = set()
    for a in by_body.get(ends[0], ()):
        for b in by_body.get(ends[1], ()):
            (type_a, affinity_a), (type_b, affinity_b) = bits.of(a), bits.of(b)
            if rigid[a] != rigid[b] and (type_a & affinity_b or type_b & affinity_a):
                found.add((min(a, b), max(a, b)))
    return found


def _neighbours(
    host: HostModel, by_body: dict[int, list[int]], carried: Mapping[int, int]
) -> set[tuple[int, int]]:
    """Pairs of bodies (low index first) with shapes that MuJoCo keeps apart as neighbours in the tree."""
    parent, child = host.joint_parent.copy(), host.joint_child
    holder = {int(body): joint for joint, body in enumerate(child.tolist())}
    for joint, above in enumerate(parent.tolist()):
        while above in carried:
            above = int(host.joint_parent[holder[above]])
        parent[joint] = above
    fixed = (host.joint_type == JointType.FIXED) | (
        (host.joint_type == JointType.D6) & (host.joint_axis_dim.sum(axis=1) == 0)
    )
    weld = np.append(np.arange(host.model.body_count), -1)
    for joint in np.flatnonzero(fixed).tolist():
        weld[child[joint]] = parent[joint]
    for _ in range(max(1, host.model.body_count.bit_length())):
        weld = weld[weld]
    members: dict[int, list[int]] = {}
    for body in by_body:
        members.setdefault(int(weld[body]), []).append(body)
    found = set()
    for joint in np.flatnonzero(~fixed).tolist():
        above = int(weld[parent[joint]])
        if above >= 0:
            for a in members.get(int(weld[child[joint]]), ()):
                found |= {(min(a, b), max(a, b)) for b in members.get(above, ())}
    return found
