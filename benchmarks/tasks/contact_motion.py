"""Scenes with contact in motion, beside those of `newtonsim.examples.scenes`; z up, SI units, for 1/240 s."""

import math
from collections.abc import Sequence

import numpy as np

from newtonsim import JointAxis, JointMode, ModelBuilder
from newtonsim.examples.scenes.parts import about, add_box, new_scene
from newtonsim.geometry.transforms import transform_inverse, transform_multiply, transform_point
from newtonsim.solvers import FeatherstoneSolver

BRICK = (0.1, 0.05, 0.05)
"""Half extents [m] of a brick."""

GRAVITY = 9.81
"""What all scenes here fall by [m/s^2]."""


def hit_wall(rows: int = 10, columns: int = 10, speed: float = 10.0, delay: float = 0.25) -> ModelBuilder:
    """Wall of bricks in running bond that a ball hits, which is as heavy as ten bricks.

    Bricks of 0.2 x 0.1 x 0.1 m and 4 kg lie face on face, 2 mm apart within a row, with friction 0.5; every
    other row has one less. The ball of radius 0.25 m strikes the middle of the wall, falling a little.

    Args:
        rows: Number of rows; 10 of 10 and 9 bricks make 95.
        columns: Bricks of the longer rows.
        speed: Of the ball along y [m/s].
        delay: Time until the ball strikes [s].
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    half_length, half_width, half_height = BRICK
    mass, pitch, radius = 4.0, 2.0 * half_length + 0.002, 0.25
    for row in range(rows):
        count = columns - row % 2
        for i in range(count):
            x = pitch * (i - 0.5 * (count - 1))
            add_box(builder, (x, 0.0, half_height * (2 * row + 1)), BRICK, mass)
    # it flies along a parabola that ends as high as it begins
    start = (0.0, -half_width - radius - speed * delay, half_height * rows)
    ball = builder.add_body(origin=(*start, 0.0, 0.0, 0.0, 1.0), key="ball")
    builder.add_shape_sphere(ball, radius=radius, density=10.0 * mass / (4.0 / 3.0 * math.pi * radius**3))
    builder.body_qd[ball] = (0.0, 0.0, 0.0, 0.0, speed, 0.5 * GRAVITY * delay)
    return builder


def heap(count: int = 200, seed: int = 0, rolling: float = 0.0) -> ModelBuilder:
    """Boxes, spheres and capsules that fall into an open box.

    They start turned at random on a grid as high as wide, at rest and clear of each other, and differ in size
    by a factor of 1.5. Density 500 kg/m^3, friction 0.5, no restitution. Without rolling friction nothing
    stops what rocks in a hollow of the heap.

    Args:
        count: Number of bodies.
        seed: Of sizes and orientations.
        rolling: Coefficient of rolling and of torsional friction of all shapes [m].
    """
    builder = new_scene(friction=0.5)
    builder.default_shape_density = 500.0
    builder.set_ground_plane()
    rng = np.random.default_rng(seed)
    side, pitch = math.ceil(count ** (1.0 / 3.0)), 0.15
    width = side * pitch
    _add_walls(builder, 0.5 * width, width + 2.0 * pitch)
    for i in range(count):
        cell = np.array([i % side, i // side % side, i // side**2])
        place = pitch * (cell + 0.5) - [0.5 * width, 0.5 * width, 0.0]
        rotation = rng.normal(size=4)
        body = builder.add_body(origin=(*place, *(rotation / np.linalg.norm(rotation))))
        size = 0.04 * rng.uniform(1.0, 1.5)
        if i % 3 == 0:
            builder.add_shape_box(body, hx=0.9 * size, hy=0.6 * size, hz=0.6 * size)
        elif i % 3 == 1:
            builder.add_shape_sphere(body, radius=size)
        else:
            builder.add_shape_capsule(body, radius=0.6 * size, half_height=0.6 * size)
    shapes = len(builder.shape_mu_rolling)
    builder.shape_mu_rolling[:] = builder.shape_mu_torsion[:] = [rolling] * shapes
    return builder


def _add_walls(builder: ModelBuilder, half: float, height: float) -> None:
    """Add four static walls of 0.1 m around a square of two halves [m]."""
    thick = 0.05
    for sign in (-1.0, 1.0):
        place = sign * (half + thick)
        builder.add_shape_box(
            -1, pos=(place, 0.0, 0.5 * height), hx=thick, hy=half + 2 * thick, hz=0.5 * height
        )
        builder.add_shape_box(-1, pos=(0.0, place, 0.5 * height), hx=half, hy=thick, hz=0.5 * height)


def tower(masses: Sequence[float]) -> ModelBuilder:
    """Cubes of 0.2 m, one on the other, with friction 0.5.

    Args:
        masses: Of the cubes [kg], the lowest first.
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    half = 0.1
    for i, mass in enumerate(masses):
        add_box(builder, (0.0, 0.0, half * (2 * i + 1)), (half, half, half), mass=mass)
    return builder


class HeldCubes:
    """Worlds with an arm each, between whose two flat fingers a cube is held by friction.

    The arm turns about z and y, stretches along x and rolls about x. Its drives follow targets that swing,
    each at its own frequency. Masses of the cubes (0.05 to 1 kg), their sides (30 to 70 mm), friction (0.4 to
    1), speeds and squeeze differ from world to world. The squeeze is 1.5 to 3 times what Coulomb friction
    and the inertia of the fingers need under gravity and the greatest acceleration of the targets. In every
    other world the drive of one finger is limited to that force, and asks for more.

    Args:
        worlds: Number of worlds.
        seed: Of what differs.

    Attributes:
        mass: Masses of the cubes [kg], shape (worlds,).
        half: Half of their sides [m], shape (worlds,).
        friction: Coefficients, shape (worlds,).
        squeeze: Force of each finger [N], shape (worlds,).
    """

    ARM = ((4.0e3, 160.0), (2.0e3, 50.0), (1.0e4, 280.0), (200.0, 3.0))
    """Stiffness and damping of the drives of the arm [N m/rad and N m s/rad, or N/m and N s/m]."""
    FASTEST = (1.0, 1.0, 0.3, 0.3)
    """Greatest speeds of their targets [rad/s or m/s]."""
    UPPER, FORE, HAND = 0.4, 0.3, 0.06
    """Lengths of the arm's links, and how far from its wrist the hand holds [m]."""
    FINGER = (2.0e4, 200.0)
    """Stiffness and damping of the drives of the fingers [N/m and N s/m]."""
    FINGER_MASS = 0.05
    """Mass of a finger [kg]."""
    BODIES = 7
    """Bodies of a world: four links of the arm, of which the last is the palm, two fingers and the cube."""

    def __init__(self, worlds: int = 1000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.worlds = worlds
        self.mass, self.half = rng.uniform(0.05, 1.0, worlds), 0.5 * rng.uniform(0.03, 0.07, worlds)
        self.friction = rng.uniform(0.4, 1.0, worlds)
        self._rate = 2.0 * math.pi * rng.uniform(0.3, 0.8, (worlds, 4))
        speed = np.array(self.FASTEST) * rng.uniform(0.1, 1.0, (worlds, 4))
        self._swing = 2.0 * speed / self._rate
        # the targets accelerate by speed times rate at most; what turns is also pulled inwards
        arms = np.array([self.UPPER + self.FORE + self.HAND, self.FORE + self.HAND, 1.0])
        pull = arms * speed[:, :3] * (self._rate[:, :3] + speed[:, :3] * (1.0, 1.0, 0.0))
        need = (0.5 * self.mass / self.friction + self.FINGER_MASS) * (GRAVITY + pull.sum(axis=1))
        self.squeeze = rng.uniform(1.5, 3.0, worlds) * need

    def build(self) -> ModelBuilder:
        """Return the builder of all worlds."""
        scene = new_scene(friction=0.5)
        for world in range(self.worlds):
            scene.add_builder(self._world(world))
        return scene

    def targets(self, time: float) -> np.ndarray:
        """Return the targets of all drives (6 worlds,) [rad or m] at a time [s]."""
        arm = 0.5 * self._swing * (1.0 - np.cos(self._rate * time))
        left = self.half - self.squeeze / self.FINGER[0]
        right = np.where(np.arange(self.worlds) % 2 == 0, left, 0.0)
        return np.column_stack([arm, left, right]).ravel().astype(np.float32)

    def corners(self, poses: np.ndarray) -> np.ndarray:
        """Return where the corners of the cubes are in the frames of the palms (worlds, 8, 3) [m]."""
        bodies = poses.reshape(self.worlds, self.BODIES, 7).astype(np.float64)
        grasp = transform_multiply(transform_inverse(bodies[:, 3]), bodies[:, 6])
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        return transform_point(grasp[:, None], self.half[:, None, None] * signs)

    def _world(self, world: int) -> ModelBuilder:
        builder = new_scene(friction=float(self.friction[world]))
        ends = (0.0, self.UPPER, self.FORE, 0.0)
        upper, fore, slide, palm = (builder.add_body(origin=_at(x)) for x in np.cumsum(ends))
        for body, length, mass in ((upper, self.UPPER, 3.0), (fore, self.FORE, 1.5)):
            _add_part(builder, body, (0.4 * length, 0.0, 0.0), (0.4 * length, 0.03, 0.03), mass)
        _add_part(builder, slide, (-0.04, 0.0, 0.0), (0.02, 0.02, 0.02), 0.3)
        _add_part(builder, palm, (0.0, 0.0, 0.0), (0.01, 0.06, 0.02), 0.5)
        kinds = (
            builder.add_joint_revolute,
            builder.add_joint_revolute,
            builder.add_joint_prismatic,
            builder.add_joint_revolute,
        )
        axes = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (1.0, 0.0, 0.0))
        parent = -1
        for body, add, axis, end, gains in zip((upper, fore, slide, palm), kinds, axes, ends, self.ARM):
            add(parent, body, parent_xform=_at(end), axis=_drive(axis, gains))
            parent = body
        self._add_hand(builder, world, palm)
        return builder

    def _add_hand(self, builder: ModelBuilder, world: int, palm: int) -> None:
        """Add the fingers, which touch the cube, and the cube."""
        half, thick = float(self.half[world]), 0.005
        targets = self.targets(0.0).reshape(self.worlds, 6)[world, 4:]
        for side, target in zip((1.0, -1.0), targets, strict=True):
            finger = builder.add_body(origin=_at(self.UPPER + self.FORE, side * half))
            place = (self.HAND, side * thick, 0.0)
            _add_part(builder, finger, place, (0.03, thick, 0.02), self.FINGER_MASS)
            limit = float(self.squeeze[world]) if side < 0.0 and world % 2 else math.inf
            axis = _drive((0.0, side, 0.0), self.FINGER, float(target), limit)
            builder.add_joint_prismatic(palm, finger, axis=axis, armature=0.0)
            builder.joint_q[-1] = half
        place = (self.UPPER + self.FORE + self.HAND, 0.0, 0.0)
        add_box(builder, place, (half, half, half), float(self.mass[world]))


def _at(x: float, y: float = 0.0, z: float = 0.0) -> tuple[float, ...]:
    """Return the pose without rotation at a point."""
    return (float(x), float(y), float(z), 0.0, 0.0, 0.0, 1.0)


def _drive(
    axis: Sequence[float], gains: tuple[float, float], target: float = 0.0, limit: float = math.inf
) -> JointAxis:
    """Return an axis with a position drive of some stiffness and damping."""
    ke, kd = gains
    mode = JointMode.TARGET_POSITION
    return JointAxis(axis, action=target, target_ke=ke, target_kd=kd, mode=mode, effort_limit=limit)


def _add_part(
    builder: ModelBuilder, body: int, place: Sequence[float], half: Sequence[float], mass: float
) -> None:
    """Give a link a box of this mass [kg]."""
    hx, hy, hz = half
    builder.add_shape_box(body, pos=place, hx=hx, hy=hy, hz=hz, density=mass / (8.0 * hx * hy * hz))


class Cars:
    """Worlds with a car each, on four wheels without suspension, which stands for a second and then drives.

    The centre of mass is in the middle, so every wheel bears a quarter of the weight. Masses (5 to 1000 kg)
    and proportions differ from world to world; friction is 0.8. Wheels are spheres in even worlds and
    cylinders in odd ones, on hinges with drives for their velocity.

    Args:
        worlds: Number of worlds.
        seed: Of what differs.

    Attributes:
        mass: Masses with wheels [kg], shape (worlds,).
        radius: Of the wheels [m], shape (worlds,).
    """

    SPEED = 0.5
    """Speed in the end [m/s]."""
    STAND, SPEED_UP = 1.0, 1.0
    """How long the cars stand, and then speed up [s]."""
    BODIES = 5
    """Bodies of a world: chassis and wheels."""

    def __init__(self, worlds: int = 64, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.worlds = worlds
        self.mass = np.exp(rng.uniform(math.log(5.0), math.log(1000.0), worlds))
        size = (self.mass / 1000.0) ** (1.0 / 3.0)
        self.radius = size * rng.uniform(0.2, 0.35, worlds)
        self._half = size[:, None] * rng.uniform((1.0, 0.4, 0.2), (2.0, 0.9, 0.5), (worlds, 3))
        self._wheel_share = rng.uniform(0.02, 0.05, worlds)

    def build(self) -> ModelBuilder:
        """Return the builder of all worlds."""
        scene = new_scene(friction=0.8)
        scene.set_ground_plane()
        for world in range(self.worlds):
            scene.add_builder(self._world(world))
        return scene

    def targets(self, time: float) -> np.ndarray:
        """Return the speeds of all wheels (4 worlds,) [rad/s] that the drives want at a time [s]."""
        speed = self.SPEED * min(max((time - self.STAND) / self.SPEED_UP, 0.0), 1.0)
        return np.repeat(speed / self.radius, 4).astype(np.float32)

    def loads(self, solver: FeatherstoneSolver) -> np.ndarray:
        """Return what the wheels bore in the last step over a quarter of the weight (worlds, 4)."""
        contacts, force = solver.contacts, solver.contact_forces().numpy()[:, 2].astype(np.float64)
        owner = solver.model.shape_body.numpy()
        load = np.zeros(self.worlds * self.BODIES)
        for sign, shapes in ((1.0, contacts.rigid_contact_shape0), (-1.0, contacts.rigid_contact_shape1)):
            shape = shapes.numpy()
            body = np.where(shape >= 0, owner[shape], -1)
            np.add.at(load, body[body >= 0], sign * force[body >= 0])
        return load.reshape(self.worlds, self.BODIES)[:, 1:] / (0.25 * GRAVITY * self.mass[:, None])

    def _world(self, world: int) -> ModelBuilder:
        builder = new_scene(friction=0.8)
        half, radius, mass = self._half[world], float(self.radius[world]), float(self.mass[world])
        share = float(self._wheel_share[world])
        chassis = add_box(builder, (0.0, 0.0, radius + half[2]), half, mass * (1.0 - 4.0 * share))
        builder.add_joint_free(chassis)
        width, gain = 0.4 * radius, 0.25 * mass * radius**2 / 0.1
        for x, y in ((-0.7, -1.0), (-0.7, 1.0), (0.7, -1.0), (0.7, 1.0)):
            place = np.array([x * half[0], y * (half[1] + 1.1 * radius), -half[2]])
            wheel = builder.add_body(origin=_at(*place[:2], radius))
            if world % 2 == 0:
                volume = 4.0 / 3.0 * math.pi * radius**3
                builder.add_shape_sphere(wheel, radius=radius, density=share * mass / volume)
            else:
                volume = math.pi * radius**2 * width
                density = share * mass / volume
                builder.add_shape_cylinder(
                    wheel, radius=radius, half_height=0.5 * width, up_axis=1, density=density
                )
            axis = JointAxis((0.0, 1.0, 0.0), target_ke=gain, mode=JointMode.TARGET_VELOCITY)
            builder.add_joint_revolute(chassis, wheel, parent_xform=_at(*place), axis=axis, armature=0.0)
        return builder


def chain(links: int = 500, bend: float = 1.0) -> ModelBuilder:
    """Chain of capsules on ball joints, which lies on the ground in waves, with friction 0.5.

    Links are 50 mm long, 20 mm thick and weigh 12 g. A wave has 40 links.

    Args:
        links: Number of links.
        bend: Largest angle between a link and the x axis [rad]; 0 for a straight chain.
    """
    builder = new_scene(friction=0.5)
    builder.set_ground_plane()
    length, radius = 0.05, 0.01
    heading = bend * np.sin(np.arange(links) * (2.0 * math.pi / 40.0))
    steps = length * np.column_stack([np.cos(heading), np.sin(heading)])
    middles = np.cumsum(steps, axis=0) - 0.5 * steps
    up, turns = (0.0, 0.0, 1.0), np.diff(heading)
    for i in range(links):
        link = builder.add_body(origin=(*middles[i], radius, *about(up, heading[i])))
        builder.add_shape_capsule(link, radius=radius, half_height=0.013, up_axis=0)
        if i == 0:
            builder.add_joint_free(link)
        else:
            ends = {"parent_xform": _at(0.5 * length), "child_xform": _at(-0.5 * length)}
            builder.add_joint_ball(link - 1, link, armature=0.0, **ends)
            builder.joint_q[-4:] = about(up, turns[i - 1]).tolist()
    return builder
