"""Four-bar linkages, by a loop constraint and by an equation of motion; rods that strike; spinning chains."""

import numpy as np
import warp as wp
from physics.scenes import GRAVITY, diagonal_inertia, z_up

import newtonsim
from newtonsim import JointType

CRANK, COUPLER, ROCKER, GROUND = 0.2, 0.5, 0.4, 0.5
MASSES = (1.0, 2.0, 1.5)
# turns the x axis towards z
AXIS = (0.0, -1.0, 0.0)


def striking_rods(restitution: float, friction: float) -> newtonsim.ModelBuilder:
    """Two rods of 1 m and 1 kg, hinged to each other and to a point above, strike the ground with their end.

    The example in which Newton's and Coulomb's laws together create energy: Kane, Levinson, "Dynamics: theory
    and applications", 1985, section 5.10.
    """
    tilts, rates, radius, gap = np.radians([20.0, 30.0]), np.array([-0.2, -0.4]), 1.0e-3, 2.0e-5
    builder = z_up(gravity=0.0)
    inertia = diagonal_inertia(1.0 / 12.0, 1.0 / 12.0, 1.0e-3)
    rods = [builder.add_body(mass=1.0, I_m=inertia) for _ in range(2)]
    top = (0.0, 0.0, float(np.cos(tilts).sum()) + radius + gap)
    ends = wp.vec3(0.0, 0.0, 0.5), wp.vec3(0.0, 0.0, -0.5)
    for parent, child, place in ((-1, rods[0], wp.vec3(*top)), (rods[0], rods[1], ends[1])):
        anchors = (wp.transform(p, wp.quat_identity()) for p in (place, ends[0]))
        builder.add_joint_revolute(parent, child, *anchors, axis=wp.vec3(0.0, 1.0, 0.0))
    builder.add_shape_sphere(
        rods[1], pos=ends[1], radius=radius, density=0.0, mu=friction, restitution=restitution
    )
    builder.set_ground_plane(mu=friction, restitution=restitution)
    builder.joint_damping, builder.joint_armature = [0.0] * 2, [0.0] * 2
    builder.joint_q = [-float(tilts[0]), -float(tilts[1] - tilts[0])]
    builder.joint_qd = [-float(rates[0]), -float(rates[1] - rates[0])]
    return builder


def random_turn(rng: np.random.Generator) -> wp.quat:
    """A random rotation."""
    q = rng.normal(size=4)
    return wp.quat(*(q / np.linalg.norm(q)).tolist())


def spinning_chain(rate: float, seed: int) -> newtonsim.ModelBuilder:
    """A free body of 10 kg with a chain of ever lighter links, all of which turn about at a rate [rad/s]."""
    rng = np.random.default_rng(seed)
    builder = z_up(gravity=0.0)
    bodies = [builder.add_body(mass=10.0, I_m=diagonal_inertia(1.0, 2.0, 1.5))]
    builder.add_joint_free(child=bodies[0])
    for k in range(3):
        bodies.append(builder.add_body(mass=2.5 / 4**k, I_m=diagonal_inertia(0.02, 0.03, 0.025) * (0.25**k)))
        axis = rng.normal(size=3)
        builder.add_joint_revolute(
            *bodies[-2:],
            *(wp.transform(wp.vec3(*rng.uniform(-0.3, 0.3, 3)), random_turn(rng)) for _ in range(2)),
            axis=wp.vec3(*(axis / np.linalg.norm(axis))),
        )
    turning = 0.3 * rate * rng.normal(size=9)
    builder.joint_qd = [*turning[:3], 0.1, 0.2, 0.3, *(rate * rng.choice([-1.0, 1.0], 3))]
    return builder


def configuration(crank):
    """Angles of crank, coupler and rocker to the x axis for crank angles [rad], by intersecting circles."""
    crank = np.asarray(crank, dtype=np.float64)
    px, pz = CRANK * np.cos(crank), CRANK * np.sin(crank)
    dx, dz = GROUND - px, -pz
    distance = np.hypot(dx, dz)
    inner = np.arccos((COUPLER**2 + distance**2 - ROCKER**2) / (2.0 * COUPLER * distance))
    coupler = np.arctan2(dz, dx) + inner
    ex, ez = px + COUPLER * np.cos(coupler), pz + COUPLER * np.sin(coupler)
    return crank, coupler, np.arctan2(ez, ex - GROUND)


def rates(crank):
    """Derivatives of the three angles with respect to the crank's."""
    t1, t2, t3 = configuration(crank)
    matrix = np.array(
        [[-COUPLER * np.sin(t2), ROCKER * np.sin(t3)], [COUPLER * np.cos(t2), -ROCKER * np.cos(t3)]]
    )
    r2, r3 = np.linalg.solve(matrix, [CRANK * np.sin(t1), -CRANK * np.cos(t1)])
    return 1.0, r2, r3


def inertia_and_potential(crank: float, gravity: float) -> tuple[float, float]:
    """Inertia that the crank feels [kg m^2] and potential energy [J]."""
    t1, t2, t3 = configuration(crank)
    _, r2, r3 = rates(crank)
    m1, m2, m3 = MASSES
    inertia = m1 * CRANK**2 / 3.0 + m3 * ROCKER**2 / 3.0 * r3**2 + m2 * COUPLER**2 / 12.0 * r2**2
    vx = -CRANK * np.sin(t1) - 0.5 * COUPLER * np.sin(t2) * r2
    vz = CRANK * np.cos(t1) + 0.5 * COUPLER * np.cos(t2) * r2
    inertia += m2 * (vx**2 + vz**2)
    height = m1 * 0.5 * CRANK * np.sin(t1) + m3 * 0.5 * ROCKER * np.sin(t3)
    height += m2 * (CRANK * np.sin(t1) + 0.5 * COUPLER * np.sin(t2))
    return inertia, gravity * height


def acceleration(angle: float, rate: float, gravity: float) -> float:
    """Angular acceleration of the crank [rad/s^2] by Lagrange's equation, with central differences."""
    h = 1.0e-5
    inertia, _ = inertia_and_potential(angle, gravity)
    (i1, v1), (i0, v0) = (inertia_and_potential(angle + s * h, gravity) for s in (1.0, -1.0))
    return -(0.5 * (i1 - i0) * rate**2 + (v1 - v0)) / (2.0 * h * inertia)


def crank_motion(start: float, speed: float, gravity: float, times: np.ndarray) -> np.ndarray:
    """Crank angles at `times`, integrated to 1e-10."""
    from scipy.integrate import solve_ivp

    solution = solve_ivp(
        lambda _, y: (y[1], acceleration(*y, gravity)),
        (0.0, times[-1]),
        (start, speed),
        t_eval=times,
        rtol=1.0e-10,
        atol=1.0e-10,
    )
    return solution.y[0]


def four_bar(
    joint_type: JointType = JointType.REVOLUTE,
    *,
    start: float = 1.0,
    speed: float = 0.0,
    gravity: float = GRAVITY,
    dt: float = 0.0,
) -> newtonsim.ModelBuilder:
    """Crank and coupler as one chain, the rocker as another, closed where coupler and rocker meet.

    Velocities are those of half a step `dt` before the start, as a solver with staggered steps has them.
    """
    builder = z_up(-gravity)
    bodies = [
        builder.add_body(
            mass=mass,
            com=wp.vec3(0.5 * length, 0.0, 0.0),
            I_m=diagonal_inertia(1.0e-4, mass * length**2 / 12.0, mass * length**2 / 12.0),
        )
        for length, mass in zip((CRANK, COUPLER, ROCKER), MASSES)
    ]
    hinge = {"axis": newtonsim.JointAxis(AXIS), "armature": 0.0}
    builder.add_joint_revolute(-1, bodies[0], **hinge)
    builder.add_joint_revolute(bodies[0], bodies[1], parent_xform=along_x(CRANK), **hinge)
    builder.add_joint_revolute(-1, bodies[2], parent_xform=along_x(GROUND), **hinge)
    axes = {JointType.REVOLUTE: [AXIS], JointType.UNIVERSAL: [AXIS, (1.0, 0.0, 0.0)]}.get(joint_type)
    builder.add_loop_joint(
        joint_type, bodies[1], bodies[2], along_x(COUPLER), along_x(ROCKER), angular_axes=axes
    )
    speed -= 0.5 * dt * acceleration(start, speed, gravity)
    angles, factors = configuration(start), rates(start - 0.5 * dt * speed)
    builder.joint_q[:] = [angles[0], angles[1] - angles[0], angles[2]]
    builder.joint_qd[:] = [speed, speed * (factors[1] - 1.0), speed * factors[2]]
    return builder


def along_x(distance: float) -> wp.transform:
    """A frame on the x axis."""
    return wp.transform((distance, 0.0, 0.0), wp.quat_identity())


def gap(joint_q: np.ndarray) -> np.ndarray:
    """Distance [m] of the coupler's end from the rocker's, for joint coordinates (..., 3)."""
    t1, t2, t3 = joint_q[..., 0], joint_q[..., 0] + joint_q[..., 1], joint_q[..., 2]
    x = CRANK * np.cos(t1) + COUPLER * np.cos(t2) - GROUND - ROCKER * np.cos(t3)
    z = CRANK * np.sin(t1) + COUPLER * np.sin(t2) - ROCKER * np.sin(t3)
    return np.hypot(x, z)
