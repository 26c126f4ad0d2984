"""Which shapes of a scene may touch, and how formats say so."""

from dataclasses import dataclass

import numpy as np

from newtonsim.errors import ModelError
from newtonsim.importers.writers.records import Scene

MAX_SHAPES = 8000
"""Shapes beyond which the table of pairs is refused: it has one entry for each pair."""

ANY = -1
"""Entry of the table for pairs that can never touch, or that the format decides in the same way."""


def touch_table(scene: Scene) -> np.ndarray:
    """Return for each pair of shapes 1 if they may touch, 0 if not, ANY where they cannot move apart (n, n).

    Visual shapes are ANY throughout.

    Raises:
        ModelError: There are too many shapes.
    """
    shapes = scene.shapes
    if len(shapes) > MAX_SHAPES:
        raise ModelError(f"{len(shapes)} shapes: more than {MAX_SHAPES} are not written to one file")
    columns = ("collides", "meets_ground", "is_ground", "group", "world", "is_collider")
    collides, grounded, ground, group, world, collider = (
        np.array([getattr(shape, name) for shape in shapes], np.int64) for name in columns
    )
    table = collides[:, None] * collides
    meets = grounded[:, None] * ground
    table = np.maximum(table, np.maximum(meets, meets.T))
    table *= (group[:, None] == group) | (group[:, None] == -1) | (group == -1)
    table *= (world[:, None] == world) | (world[:, None] == -1) | (world == -1)
    for a, b in ((0, 1), (1, 0)):
        table[scene.filtered[:, a], scene.filtered[:, b]] = 0
    table[scene.rigid[:, None] == scene.rigid] = ANY
    table[collider == 0] = ANY
    table[:, collider == 0] = ANY
    return table


def rigid_bodies(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return the topmost body that each body is welded to, -1 for what stands still, and the group above.

    Returns:
        Groups (bodies,) and, by body, the group of the parent of its group's topmost body (bodies,), -1 for
        the world.
    """
    count = len(scene.bodies)
    group, above = np.full(count, -2), np.full(count, -1)
    for body in range(count):
        chain = []
        while body >= 0 and group[body] == -2:
            chain.append(body)
            joint = scene.bodies[body].joint
            if joint is None:
                body = -1
            elif scene.joints[joint].is_rigid:
                body = scene.joints[joint].parent
            else:
                group[body] = body
                break
        for one in chain:
            group[one] = -1 if body < 0 else group[body]
    for body in range(count):
        joint = scene.bodies[group[body]].joint if group[body] >= 0 else None
        parent = -1 if joint is None else scene.joints[joint].parent
        above[body] = -1 if parent < 0 else group[parent]
    return group, above


def neighbours(scene: Scene, world_counts: bool = False) -> np.ndarray:
    """Return the pairs of shapes on groups of bodies that are parent and child, bool (n, n).

    Args:
        scene: The scene.
        world_counts: Whether what stands still is a neighbour of what hangs on it.
    """
    group, above = rigid_bodies(scene)
    body = np.array([shape.body for shape in scene.shapes], np.int64)
    of = np.where(body < 0, -1, group[np.maximum(body, 0)]) if len(group) else body
    over = np.where(body < 0, -1, above[np.maximum(body, 0)]) if len(group) else body
    below = (over[:, None] == of) & ((of >= 0) | world_counts)
    return below | below.T


@dataclass(slots=True)
class Kinds:
    """Shapes that touch alike: the kind of each shape, and which kinds touch each other (k, k)."""

    of_shape: np.ndarray
    touch: np.ndarray


def kinds_of(table: np.ndarray) -> Kinds:
    """Sort shapes into as few kinds as it takes to say by kinds which pairs touch; ANY says nothing."""
    members: list[list[int]] = []
    rows: list[np.ndarray] = []
    for shape, row in enumerate(table):
        for kind, known in enumerate(rows):
            if not ((row != known) & (row != ANY) & (known != ANY)).any():
                members[kind].append(shape)
                rows[kind] = np.where(known == ANY, row, known)
                break
        else:
            members.append([shape])
            rows.append(row.copy())
    while (mixed := _mixed(table, members)) is not None:
        members[mixed[0] : mixed[0] + 1] = mixed[1:]
    of_shape = np.zeros(len(table), np.int64)
    for kind, places in enumerate(members):
        of_shape[places] = kind
    touch = np.zeros((len(members), len(members)), np.int64)
    for a, first in enumerate(members):
        for b, second in enumerate(members):
            touch[a, b] = table[np.ix_(first, second)].max()
    return Kinds(of_shape, touch)


def _mixed(table: np.ndarray, members: list[list[int]]) -> tuple[int, list[int], list[int]] | None:
    """Find a kind whose shapes differ towards another kind, and split it; None if there is none."""
    for kind, places in enumerate(members):
        for others in members:
            block = table[np.ix_(places, others)]
            if (block == 0).any() and (block == 1).any():
                touching = (block == 1).any(axis=1)
                if touching.all():  # some touch and do not touch shapes of the one kind
                    touching = np.arange(len(places)) == 0
                if len(places) == 1:
                    continue  # the other kind is the one to split, and its turn comes
                first = [place for place, one in zip(places, touching) if one]
                return kind, first, [place for place, one in zip(places, touching) if not one]
    return None
