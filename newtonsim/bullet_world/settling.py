"""Many candidates for the place of an object, simulated in worlds that hold no more than it can touch.

What stands still is around all worlds at once. What else moves is simulated once without the object, and put
into the worlds of those candidates alone whose object came near it: bodies that no constraint joins and whose
bounding boxes never meet move as if the others were not there. This is the argument of islands, D. Baraff,
"Issues in Computing Contact Forces for Non-Penetrating Rigid Bodies", Algorithmica 10, 1993, section 1, for a
whole second instead of an instant.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import newtonsim.pybullet_compat as p
from newtonsim.bullet_world.object_states import REST
from newtonsim.bullet_world.objects import Object
from newtonsim.bullet_world.shadows import Shadows, Trials

WORTH_A_MODEL = 8
"""Candidates for which it pays to build a model that is smaller by some objects."""


def settle(item: Object, poses: np.ndarray, seconds: float) -> np.ndarray:
    """Simulate the world of an object once for each of its poses, and return where it ends up.

    Loose attachments to it are released.

    Args:
        item: The object.
        poses: Its poses at the start (n, 7).
        seconds: Time to simulate [s].

    Returns:
        Its poses at the end (n, 7).
    """
    filtered = item.client.filtered_bodies()  # what surrounds worlds knows of no such filters
    group = held_together([item, *(other for other in item.world.objects if other.id in filtered)], item)
    result = np.empty((len(poses), 7))
    with Surroundings(item, group, seconds) as around:
        waiting = [(group, np.arange(len(poses)))]
        while waiting:
            inside, chosen = waiting.pop()
            others = around.others(inside)
            objects = [other for other in item.world.objects if other in inside]
            with Shadows(item.world, len(chosen), objects) as shadows:
                shadows.let_go(item)
                shadows.client.surround(around.standing_without(inside))
                shadows.place(item, poses[chosen])
                swept = simulate(shadows, seconds, inside if others else ())
                result[chosen] = shadows.frames(item)
            met = np.array([swept.meets(around.swept.of(other)) for other in others], bool)
            for touched, places in alike(met.reshape(len(others), len(chosen))):
                more = around.islands_of(other for other, found in zip(others, touched) if found)
                waiting.append((inside | more, chosen[places]))
    return result


def alike(met: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Divide candidates by what they have met, those that have met nothing left out.

    Args:
        met: Which of the objects each candidate has met, bool (objects, candidates).

    Returns:
        Objects, bool (objects,), and the candidates that have met all of them and nothing else. Few of a
        kind are put together with others, whose objects are then those of all.
    """
    candidates = np.flatnonzero(met.any(axis=0))
    kinds, kind = np.unique(met[:, candidates], axis=1, return_inverse=True)
    counts = np.bincount(kind.ravel(), minlength=kinds.shape[1])
    many = np.flatnonzero(counts >= WORTH_A_MODEL)
    few = candidates[~np.isin(kind.ravel(), many)]
    found = [(kinds[:, k], candidates[kind.ravel() == k]) for k in many]
    return found + ([(met[:, few].any(axis=1), few)] if len(few) else [])  # pyright: ignore[reportReturnType]


def held_together(items: Iterable[Object], let_go: Object) -> set[Object]:
    """Return objects with all that attachments hold to them, but not by loose ones of what is let go."""
    found, queue = set(items), list(items)
    for place in queue:  # grows meanwhile
        for other, attachment in place.attachments.items():
            if other not in found and not (attachment.loose and attachment.child is let_go):
                found.add(other)
                queue.append(other)
    return found


def standing_links(item: Object) -> set[int]:
    """Indices of the links of an object that nothing moves: a fixed base, and what is fixed to that."""
    client, uid = item.client, item.id
    massive = any(client.getDynamicsInfo(uid, link)[0] > 0.0 for link in item.links.values())
    if (massive and not item.fixed_base) or client.getBaseVelocity(uid) != REST:
        return set()
    found = {-1}
    for joint in range(client.getNumJoints(uid)):  # parents come first
        info = client.getJointInfo(uid, joint)
        if info[2] == p.JOINT_FIXED and info[16] in found:
            found.add(joint)
    return found


class Swept:
    """Boxes around what the moving shapes of objects have swept over in each world while it was watched.

    Args:
        trials: The worlds.
        objects: The objects.
    """

    def __init__(self, trials: Trials, objects: Iterable[Object]):
        owner = {trials.id_of(item): (item, standing_links(item)) for item in objects}
        self._shapes: dict[Object, list[int]] = {item: [] for item, _ in owner.values()}
        if owner:
            self._lower, self._upper = trials.client.swept_bounds()
        for shape, (uid, link) in enumerate(trials.client.shape_links if owner else ()):
            if uid in owner and link not in owner[uid][1]:
                self._shapes[owner[uid][0]].append(shape)

    def of(self, item: Object) -> tuple[np.ndarray, np.ndarray]:
        """Corners of the boxes of an object's shapes in the first world, (shapes, 3) each [m]."""
        shapes = self._shapes[item]
        return self._lower[0, shapes], self._upper[0, shapes]

    def meets(self, boxes: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """In which worlds a moving shape has come into one of some boxes, bool (worlds,)."""
        own = [shape for shapes in self._shapes.values() for shape in shapes]
        return overlap((self._lower[:, own], self._upper[:, own]), boxes).any(axis=(1, 2))  # pyright: ignore[reportReturnType]


def overlap(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Which boxes (..., m, 3) overlap which others (n, 3), as lower and upper corners, bool (..., m, n)."""
    return np.all((a[0][..., None, :] <= b[1]) & (a[1][..., None, :] >= b[0]), axis=-1)


def simulate(trials: Trials, seconds: float, objects: Iterable[Object]) -> Swept:
    """Simulate worlds, and return what some objects have swept over."""
    if objects:
        trials.client.watch_bounds()
    trials.client.advance(trials.steps(seconds))
    return Swept(trials, objects)


class Surroundings:
    """What a world does without an object: what stands still, and what the rest sweeps over.

    Args:
        item: The object.
        inside: What it takes with it, itself included.
        seconds: Time to simulate [s].

    Attributes:
        swept: What the other objects that can move have swept over.
    """

    def __init__(self, item: Object, inside: set[Object], seconds: float):
        self._item = item
        rest = [other for other in item.world.objects if other not in inside]
        standing = {other: standing_links(other) for other in rest}
        self._movers = [other for other in rest if len(standing[other]) < len(other.links)]
        self._shadows = Shadows(item.world, 1, rest)
        client = self._shadows.client
        self._standing = {
            other: client.standing_links((self._shadows.id_of(other), link) for link in sorted(links))
            for other, links in standing.items()
        }
        self.swept = simulate(self._shadows, seconds if self._movers else 0.0, self._movers)

    def __enter__(self) -> Surroundings:
        return self

    def __exit__(self, *error: object) -> None:
        self._shadows.exit()

    def standing_without(self, inside: set[Object]) -> list:
        """Links that stand still, but those of some objects."""
        return [link for item, links in self._standing.items() if item not in inside for link in links]

    def others(self, inside: set[Object]) -> list[Object]:
        """What can move, but some objects."""
        return [item for item in self._movers if item not in inside]

    def islands_of(self, items: Iterable[Object]) -> set[Object]:
        """Return objects with all that may touch them or is held by them, and so on."""
        found = held_together(items, self._item)
        queue = list(found)
        for place in queue:  # grows meanwhile
            if place not in self._movers:
                continue
            boxes = self.swept.of(place)
            near = [x for x in self.others(found) if overlap(boxes, self.swept.of(x)).any()]
            new = held_together(near, self._item) - found
            found |= new
            queue += new
        return found
