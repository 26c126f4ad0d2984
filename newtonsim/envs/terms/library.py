"""Terms by name, for tasks and for options such as rewards={"slip_feet": -0.1}."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from newtonsim.envs.terms.robots import JointFrame
from newtonsim.envs.terms.term import (
    PER_ACTION,
    PER_BODY,
    PER_JOINT,
    Action,
    Ending,
    Event,
    Observation,
    Reward,
    changed,
)
from newtonsim.errors import NewtonsimError
from newtonsim.kernels.envs.terms import actions as act
from newtonsim.kernels.envs.terms import ends, events, gait, goals, hand, in_hand, observations, rewards

Point = Sequence[float]
Points = Point | Sequence[Point]
"""A point for all bodies of a term, or one for each."""
_ORIGIN = (0.0, 0.0, 0.0)


def _places(mirror: str | Sequence[int] | None) -> str | tuple[int, ...] | None:
    """Return a mirror map of a term, given one as JSON may have it."""
    return mirror if mirror is None or isinstance(mirror, str) else tuple(mirror)


def _centred(point: Point) -> str | None:
    """Return the mirror map of a vector from a point of the base, which is known in its plane y = 0."""
    return "vector" if point[1] == 0.0 else None


def _flat(points: Points) -> tuple[float, ...]:
    """Return the numbers of one point or of several."""
    return tuple(np.asarray(points, float).reshape(-1, 3).ravel().tolist())


OBSERVATIONS: dict[str, Callable[..., Observation]] = {
    "velocity": lambda: Observation(kernel=observations.observe_velocity, size=3, mirror="vector"),
    "spin": lambda: Observation(kernel=observations.observe_spin, size=3, mirror="axial"),
    "down": lambda: Observation(kernel=observations.observe_down, size=3, mirror="vector"),
    "command": lambda mirror="twist command": Observation(
        kernel=observations.observe_command, size=3, mirror=_places(mirror)
    ),
    "angles": lambda joints=None: Observation(
        kernel=observations.observe_angles, size=PER_JOINT, joints=joints, mirror=PER_JOINT
    ),
    "rates": lambda joints=None: Observation(
        kernel=observations.observe_rates, size=PER_JOINT, joints=joints, mirror=PER_JOINT
    ),
    "targets": lambda joints=None: Observation(
        kernel=observations.observe_targets, size=PER_JOINT, joints=joints, mirror=PER_JOINT
    ),
    "actions": lambda: Observation(kernel=observations.observe_actions, size=PER_ACTION, mirror=PER_ACTION),
    "gait": lambda period=0.8: Observation(
        # the mirror image is half a period ahead
        kernel=gait.observe_gait,
        size=2,
        numbers=(period,),
        mirror=(-1, -2),
    ),
    "height": lambda: Observation(kernel=observations.observe_height, size=1, mirror="same"),
    "axes": lambda: Observation(kernel=observations.observe_axes, size=9, mirror="matrix"),
    "target": lambda point=_ORIGIN: Observation(
        kernel=observations.observe_target, size=3, numbers=tuple(point), mirror=_centred(point)
    ),
    "body": lambda body, point=_ORIGIN: Observation(
        kernel=observations.observe_body, size=3, bodies=body, numbers=tuple(point), mirror=_centred(point)
    ),
    "field": lambda field, size, select="*", mirror=None: Observation(
        kernel=observations.observe_field, size=size, field=field, select=select, mirror=_places(mirror)
    ),
    "sensor": lambda sensor, size, offset=0.0, low=-math.inf, high=math.inf, mirror=None: Observation(
        kernel=observations.observe_sensor,
        size=size,
        sensor=sensor,
        numbers=(size, offset, max(low, -1e30), min(high, 1e30)),
        mirror=_places(mirror),
    ),
}
"""Observations: velocities and orientation of the base, the command, joints, last actions, points, sensors,
fields of the model."""

REWARDS: dict[str, Callable[..., Reward]] = {
    "stay_alive": lambda: Reward(kernel=rewards.stay_alive),
    "track_velocity": lambda width=0.25: Reward(kernel=rewards.track_velocity, numbers=(width,)),
    "track_turning": lambda width=0.25: Reward(kernel=rewards.track_turning, numbers=(width,)),
    "vertical_speed": lambda: Reward(kernel=rewards.vertical_speed),
    "rolling": lambda: Reward(kernel=rewards.rolling),
    "spinning": lambda: Reward(kernel=rewards.spinning),
    "leaning": lambda: Reward(kernel=rewards.leaning),
    "be_upright": lambda: Reward(kernel=rewards.be_upright),
    "be_high": lambda height=0.3: Reward(kernel=rewards.be_high, numbers=(height,)),
    "jerking": lambda: Reward(kernel=rewards.jerking),
    "leaving_home": lambda joints=None: Reward(kernel=rewards.leaving_home, joints=joints),
    "moving_joints": lambda joints=None: Reward(kernel=rewards.moving_joints, joints=joints),
    "step_in_the_air": lambda point=_ORIGIN, height=0.03, least=0.2, sensor=None: Reward(
        kernel=rewards.step_in_the_air,
        numbers=(height, least, 0.1, *_flat(point)),
        notes=PER_BODY,
        sensor=sensor,
        readings=4,
    ),
    "slip_feet": lambda point=_ORIGIN, height=0.03, sensor=None: Reward(
        kernel=rewards.slip_feet, numbers=(height, *_flat(point)), sensor=sensor, readings=4
    ),
    "lift_feet": lambda point=_ORIGIN, height=0.03, lift=0.08, width=0.003, period=0.8, air=0.4: Reward(
        kernel=gait.lift_feet, numbers=(height, lift, width, period, air, *_flat(point))
    ),
    "undesired_contacts": lambda bodies="*", sensor="undesired": Reward(
        kernel=rewards.undesired_contacts, bodies=bodies, sensor=sensor, readings=1
    ),
    "touch_otherwise": lambda bodies, sensor: Reward(
        kernel=rewards.touch_otherwise, bodies=bodies, sensor=sensor, readings=4
    ),
    "near_target": lambda point=_ORIGIN, width=0.2, reached=0.05: Reward(
        kernel=goals.near_target, numbers=(*point, width, reached)
    ),
    "near_body": lambda body, point=_ORIGIN, width=0.1: Reward(
        kernel=goals.near_body, bodies=body, numbers=(*point, width)
    ),
    "hold_body": lambda body, joints, point=_ORIGIN, reach=0.015, least=0.002: Reward(
        kernel=goals.hold_body, bodies=body, joints=joints, numbers=(*point, reach, least)
    ),
    "bring_body": lambda body, lifted, width=0.2, reached=0.05: Reward(
        kernel=goals.bring_body, bodies=body, numbers=(lifted, width, reached)
    ),
    "bring_onto_body": lambda bodies, lifted, height, width=0.2: Reward(
        kernel=goals.bring_onto_body, bodies=bodies, numbers=(lifted, width, height)
    ),
    "rest_on_body": lambda bodies, height, point=_ORIGIN, aside=0.02, error=0.005, speed=0.05, away=0.03: (
        Reward(kernel=goals.rest_on_body, bodies=bodies, numbers=(*point, height, aside, error, speed, away))
    ),
    "turn_body": lambda body, most=0.5: Reward(kernel=in_hand.turn_body, bodies=body, numbers=(most,)),
    "drifting": lambda body: Reward(kernel=in_hand.drifting, bodies=body),
    "dropping": lambda body, distance=0.05: Reward(kernel=in_hand.dropping, bodies=body, numbers=(distance,)),
    "exerting": lambda sensor, offset, count: Reward(
        kernel=in_hand.exerting, sensor=sensor, numbers=(offset, count)
    ),
}
"""Rewards, multiplied by a weight and the time of a step; `step_in_the_air` pays when a foot lands."""


def _cosine_of(degrees: float) -> float:
    """Return the cosine of a tilt, which 0 would be exceeded by from the start."""
    if not 0.0 < degrees <= 180.0:
        raise NewtonsimError(f"degrees: expected an angle above 0 and up to 180, got {degrees!r}")
    return math.cos(math.radians(degrees))


ENDS: dict[str, Callable[..., Ending]] = {
    "low": lambda height=0.15: Ending(kernel=ends.end_low, numbers=(height,)),
    "near_ground": lambda sensor, height=0.15: Ending(
        kernel=ends.end_near_ground, numbers=(height,), sensor=sensor
    ),
    "tilted": lambda degrees=60.0: Ending(kernel=ends.end_tilted, numbers=(_cosine_of(degrees),)),
    "far": lambda distance=1.0: Ending(kernel=ends.end_far, numbers=(distance,)),
    "touching": lambda bodies, sensor: Ending(
        kernel=ends.end_touching, bodies=bodies, sensor=sensor, readings=4
    ),
    "dropped": lambda body, distance=0.05: Ending(
        kernel=in_hand.end_dropped, bodies=body, numbers=(distance,)
    ),
}
"""Ends: a base that is low, tilted or far away, bodies that touch or fall."""

EVENTS: dict[str, Callable[..., Event]] = {
    "home": lambda noise=0.1, speed=0.0, turned=True: Event(
        kernel=events.start_at_home,
        numbers=(noise, speed, float(turned)),
        floats=bool(turned or speed > 0.0),
    ),
    "hold": lambda joints: Event(kernel=events.hold_at_home, joints=joints),
    "anyhow": lambda noise=0.3, height=0.4: Event(
        kernel=events.start_anyhow, numbers=(noise, height), floats=True
    ),
    "in_air": lambda offset=0.3, tilt=0.3, speed=0.3, spin=0.5: Event(
        kernel=events.start_in_air, numbers=(offset, tilt, speed, spin), floats=True
    ),
    "command": lambda low, high, steps=0, still=0.0, least=0.0: Event(
        kernel=events.draw_command,
        numbers=(*low, *high, steps, still, least),
        when="both" if steps else "start",
    ),
    "heading": lambda most=1.0: Event(
        kernel=events.turn_to_heading, numbers=(most,), notes=1, when="both", floats=True
    ),
    "patch": lambda numbers: Event(kernel=events.start_on_patch, numbers=tuple(numbers), floats=True),
    "way": lambda: Event(kernel=events.note_way, when="step"),
}
"""Events, which run in this order at the start of an episode: start of the robot, command."""


def place_body(
    coord: int, low: Sequence[float], high: Sequence[float], height: float, turn: float = math.pi
) -> Event:
    """Start a free body, given by its first coordinate in its world, in a rectangle (x, y) [m].

    It is turned about the vertical by up to `turn` to either side [rad].
    """
    return Event(kernel=events.place_body, numbers=(*low, *high, height, coord, turn))


def rewards_of(given: Mapping[str, Any]) -> dict[str, Reward]:
    """Return rewards of the library, given weights or arguments with "weight" and, if needed, "term"."""
    return changed(Reward, {}, given, REWARDS)


def aim(scales: Sequence[float]) -> Action:
    """Return an action that shifts targets of drives from home by up to `scales` [rad or m]."""
    return Action(kernel=act.aim_joints, numbers=tuple(scales), mirror=PER_JOINT)


def step(
    scales: Sequence[float], shifts: Sequence[float], feet: Sequence[int], period: float, air: float
) -> Action:
    """Return an action that shifts targets of drives from those of a gait, in which two feet rise in turn.

    Args:
        scales: Shift at action 1 [rad or m].
        shifts: Shift from home when the gait lifts a joint's foot highest [rad or m].
        feet: The foot of each joint, 0 or 1.
        period: Time of two steps [s].
        air: Share of the period for which a foot is in the air.
    """
    return Action(kernel=gait.step_joints, numbers=(*scales, *shifts, *feet, period, air), mirror=PER_JOINT)


def shift(scales: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> Action:
    """Return an action that moves targets of drives by up to `scales` per step [rad or m], within limits."""
    return Action(kernel=act.shift_joints, numbers=(*scales, *lower, *upper), mirror=PER_JOINT)


def move_hand(step: float, pace: float, lowest: float, tip: Point, joints: Sequence[JointFrame]) -> Action:
    """Return four actions: three move the tip of a hand, the fourth sets the opening of its fingers.

    Args:
        step: Way of the tip at action 1 along x, y or z of the world [m].
        pace: Greatest change of the targets of the fingers' drives per step [rad or m].
        lowest: Height below which the tip is not moved [m].
        tip: The tip in the frame of the base, which is the hand [m]; the direction to it is kept downward.
        joints: The driven joints; those that do not carry the hand are its fingers.
    """
    numbers = [number for joint in joints for number in joint.numbers()]
    return Action(kernel=hand.move_hand, numbers=(*tip, step, lowest, pace, *numbers), size=4)


def thrust(most: float, places: Sequence[Point], drags: Sequence[float]) -> Action:
    """Return an action that sets rotor thrusts along z of the base, from 0 at -1 to `most` [N] at 1."""
    of_rotors = [number for place, drag in zip(places, drags) for number in (*place, drag)]
    return Action(
        kernel=act.spin_rotors, numbers=(most, *of_rotors), size=len(places), mirror=_images(places, drags)
    )


def _images(places: Sequence[Point], drags: Sequence[float]) -> tuple[int, ...] | None:
    """Return the mirror map of rotors: one at the mirrored place turns the other way; None if one lacks."""
    images = [((x, -y, z), -drag) for (x, y, z), drag in zip(places, drags)]
    rotors = [(tuple(place), drag) for place, drag in zip(places, drags)]
    return tuple(rotors.index(image) + 1 for image in images) if set(images) == set(rotors) else None


__all__ = [
    "ENDS",
    "EVENTS",
    "OBSERVATIONS",
    "REWARDS",
    "aim",
    "move_hand",
    "place_body",
    "rewards_of",
    "shift",
    "step",
    "thrust",
]
