"""Chains of light links with loads at their ends, as trees of hinges and as free bodies tied at points."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from physics.scenes import diagonal_inertia, z_up

import newtonsim

LINK = 0.1
"""Length of a link [m]."""
HALF = 0.1
"""From the end of the last link to the centre of mass of the load [m]."""
LIGHT = 0.02
"""Mass of a link [kg]."""


NO_TURN = (0.0, 0.0, 0.0, 1.0)


@dataclass
class Chain:
    """A chain in one builder.

    Attributes:
        builder: The builder.
        places: Distances of the centres of mass of all bodies from its first end, along it [m].
        end: Where it ends so far, likewise.
    """

    builder: newtonsim.ModelBuilder
    places: np.ndarray
    end: float = 0.0

    def add(self, body: int, half: float) -> None:
        """Note a body that reaches from the end so far by twice `half`."""
        assert body == len(self.places)
        self.places = np.append(self.places, self.end + half)
        self.end += 2.0 * half


def add_part(builder: newtonsim.ModelBuilder, load: float, place: np.ndarray, turn: tuple) -> int:
    """Add a link, or a load of a mass, that lies along its x axis at a place."""
    inertia = diagonal_inertia(*[load * HALF * HALF / 1.5] * 3)
    if load == 0.0:
        across = LIGHT * LINK * LINK / 12.0
        inertia = diagonal_inertia(0.02 * across, across, across)
    return builder.add_body(origin=(tuple(place), turn), mass=load or LIGHT, I_m=inertia)


def hanging(kind: str, links: int, load: float, angle: float) -> Chain:
    """A stretched chain from the origin, `angle` from the vertical [rad], with a load at its end."""
    half = 0.25 * math.pi - 0.5 * angle
    turn = (0.0, math.sin(half), 0.0, math.cos(half))
    along = np.array([math.sin(angle), 0.0, -math.cos(angle)])
    chain, before, ahead = Chain(z_up(), np.zeros(0)), -1, (0.0, 0.0, 0.0)
    for mass in [0.0] * links + [load]:
        half = HALF if mass else 0.5 * LINK
        chain.add(add_part(chain.builder, mass, (chain.end + half) * along, turn), half)
        joint_turn = turn if before < 0 else NO_TURN
        _join(chain.builder, kind, before, (ahead, joint_turn), half, (0.0, 1.0, 0.0))
        before, ahead = before + 1, (half, 0.0, 0.0)
    return chain


def bolas(kind: str, links: int, load: float) -> Chain:
    """A stretched chain along x between two loads, without gravity."""
    chain, before, ahead = Chain(z_up(gravity=0.0), np.zeros(0)), -1, 0.0
    for mass in [load, *[0.0] * links, load]:
        half = HALF if mass else 0.5 * LINK
        chain.add(add_part(chain.builder, mass, np.array([chain.end + half, 0.0, 0.0]), NO_TURN), half)
        if before >= 0:
            _join(chain.builder, kind, before, ((ahead, 0.0, 0.0), NO_TURN), half, (0.0, 0.0, 1.0))
        elif kind == "hinged":
            chain.builder.add_joint_free(child=0)
        before, ahead = before + 1, half
    return chain


def _join(
    builder: newtonsim.ModelBuilder, kind: str, before: int, frame: tuple, half: float, axis: tuple
) -> None:
    """Join the near end of the last body to a frame of the one before it, by a hinge or at a point."""
    if kind == "tied":
        builder.add_constraint_connect(before, before + 1, frame[0], (-half, 0.0, 0.0))
    else:
        builder.add_joint_revolute(
            before, before + 1, frame, ((-half, 0.0, 0.0), NO_TURN), axis, armature=0.0
        )


def turned(half: float) -> tuple[float, float, float, float]:
    """Rotation about the y axis by twice an angle [rad]."""
    return 0.0, math.sin(half), 0.0, math.cos(half)


def bridge(planks: int, span: float, sag: float, load: float) -> newtonsim.ModelBuilder:
    """A slack bridge of planks of 1 kg on hinges, at rest on a parabola 2 m above the ground.

    Its far end is tied to the world, and a box of a mass [kg] is 0.25 m above its middle unless that is zero.
    """
    x = np.linspace(0.0, span, 2001)
    curve = np.stack([x, 0.0 * x, 2.0 - 4.0 * sag * (x / span) * (1.0 - x / span)], axis=1)
    length = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1)))
    even = np.linspace(0.0, length[-1], planks + 1)
    ends = np.stack([np.interp(even, length, curve[:, axis]) for axis in range(3)], axis=1)
    builder, before, ahead, last = z_up(), -1, tuple(ends[0]), 0.0
    builder.set_ground_plane(mu=0.7)
    for near, far in itertools.pairwise(ends):
        size, half = float(np.linalg.norm(far - near)), -0.5 * math.atan2(*(far - near)[[2, 0]])
        body = builder.add_body(origin=(tuple(0.5 * (near + far)), turned(half)))
        look = dict(hx=0.48 * size, hy=0.3, hz=0.01, density=1.0 / (0.96 * size * 0.6 * 0.02), mu=0.7)
        builder.add_shape_box(body, **look)
        free = dict(armature=0.0, limit_lower=-math.inf, limit_upper=math.inf)
        frames = (ahead, turned(half - last)), ((-0.5 * size, 0.0, 0.0), NO_TURN)
        builder.add_joint_revolute(before, body, *frames, axis=(0.0, 1.0, 0.0), **free)
        before, ahead, last = body, (0.5 * size, 0.0, 0.0), half
    builder.add_constraint_connect(-1, before, anchor=tuple(ends[-1]), child_anchor=ahead)
    if load > 0.0:
        box = builder.add_body(origin=((0.5 * span, 0.0, 2.4 - sag), NO_TURN))
        builder.add_shape_box(box, hx=0.15, hy=0.15, hz=0.15, density=load / 0.027, mu=0.7)
    return builder
