"""Bending edges in extended position-based dynamics.

The constraint is the angle between two triangles, see `particles.elements.hinge`. Elements are stored as in
`particles.xpbd.springs`.

Stage: XPBD substep, sweeps over elements
Called by: solvers/xpbd/elements.py
Reads: EdgeView, inv_mass, mask, properties, rest_angle, rest_length, v, world, x
Writes: EdgeView, shift
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.particles.elements.hinge import Fold, fold_of
from newtonsim.kernels.particles.xpbd.particles import is_cleared

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class EdgeView:
    """E bending edges between two triangles, by place; valid during a step."""

    element: wp.array(dtype=int)  # (E) edge of the model, in the order of the worlds
    place: wp.array(dtype=int)  # (E) of each of them
    corner: wp.array(dtype=wp.vec4i)  # opposite corners, then the edge
    weight: wp.array(dtype=wp.vec4)  # inverse masses of the corners [1/kg]
    stiffness: wp.array(dtype=wp.vec2)  # ke and kd times the length [N m, N m s]
    rest: wp.array(dtype=float)  # [rad]
    torque: wp.array(dtype=float)  # torque that opens the angle [N m]


@wp.kernel
def prepare_edges(
    first: int,
    rest_length: wp.array(dtype=float),
    rest_angle: wp.array(dtype=float),
    properties: wp.array2d(dtype=float),
    inv_mass: wp.array(dtype=float),
    edges: EdgeView,
):
    """One thread per edge: read its parameters from the model at the start of a step."""
    k = first + wp.tid()
    e = edges.element[k]
    s = edges.place[k]
    corner = edges.corner[s]
    edges.weight[s] = wp.vec4(
        inv_mass[corner[0]], inv_mass[corner[1]], inv_mass[corner[2]], inv_mass[corner[3]]
    )
    edges.stiffness[s] = wp.vec2(properties[e, 0], properties[e, 1]) * rest_length[e]
    edges.rest[s] = rest_angle[e]


@wp.kernel
def clear_edges(
    first: int, masked: int, mask: wp.array(dtype=bool), world: wp.array(dtype=int), edges: EdgeView
):
    """One thread per edge: clear the torques of the last substep, in masked worlds or in all."""
    s = edges.place[first + wp.tid()]
    if is_cleared(masked, mask, world, edges.corner[s][0]):
        edges.torque[s] = 0.0


@wp.kernel
def start_edges(
    first: int,
    base: int,
    edges: EdgeView,
    x: wp.array(dtype=wp.vec3),
    keep: float,
    dt: float,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per edge of a colour: start from a share of the torque of the last substep."""
    s = base + first + wp.tid()
    corner = edges.corner[s]
    fold = fold_of(
        x[corner[0]] + shift[corner[0]],
        x[corner[1]] + shift[corner[1]],
        x[corner[2]] + shift[corner[2]],
        x[corner[3]] + shift[corner[3]],
    )
    torque = edges.torque[s] * keep
    edges.torque[s] = torque
    turn_corners(edges, s, fold, torque * dt * dt, shift)


@wp.func
def turn_corners(edges: EdgeView, s: int, fold: Fold, push: float, shift: wp.array(dtype=wp.vec3)):
    """Move the corners of an edge by a torque times dt²."""
    corner = edges.corner[s]
    w = edges.weight[s]
    shift[corner[0]] = shift[corner[0]] + fold.g0 * (w[0] * push)
    shift[corner[1]] = shift[corner[1]] + fold.g1 * (w[1] * push)
    shift[corner[2]] = shift[corner[2]] + fold.g2 * (w[2] * push)
    shift[corner[3]] = shift[corner[3]] + fold.g3 * (w[3] * push)


@wp.kernel
def solve_edges(
    first: int,
    base: int,
    edges: EdgeView,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    dt: float,
    fresh: int,
    relaxation: float,
    shift: wp.array(dtype=wp.vec3),
):
    """One thread per edge of a colour: make its torque agree with the angle that it causes."""
    s = base + first + wp.tid()
    corner = edges.corner[s]
    w = edges.weight[s]
    s0 = shift[corner[2]]
    s1 = shift[corner[3]] - s0
    s2 = shift[corner[0]] - s0
    s3 = shift[corner[1]] - s0
    x0 = x[corner[2]]
    fold = fold_of((x[corner[0]] - x0) + s2, (x[corner[1]] - x0) + s3, wp.vec3(0.0), (x[corner[3]] - x0) + s1)
    mobility = w[0] * wp.dot(fold.g0, fold.g0) + w[1] * wp.dot(fold.g1, fold.g1)
    mobility += w[2] * wp.dot(fold.g2, fold.g2) + w[3] * wp.dot(fold.g3, fold.g3)
    if mobility > 0.0:
        beyond = fold.angle - edges.rest[s]
        beyond = beyond - 2.0 * wp.PI * wp.floor(beyond / (2.0 * wp.PI) + 0.5)
        k = edges.stiffness[s][0]
        c = edges.stiffness[s][1] / dt
        torque = float(0.0)
        if fresh == 0:
            torque = edges.torque[s]
        missing = torque + k * beyond
        if c > 0.0:
            moved = wp.dot(fold.g0, (v[corner[0]] - v[corner[2]]) * dt + s2)
            moved += wp.dot(fold.g1, (v[corner[1]] - v[corner[2]]) * dt + s3)
            moved += wp.dot(fold.g3, (v[corner[3]] - v[corner[2]]) * dt + s1)
            missing += c * moved
        change = -relaxation * missing / (1.0 + (k + c) * mobility * dt * dt)
        edges.torque[s] = torque + change
        turn_corners(edges, s, fold, change * dt * dt, shift)
