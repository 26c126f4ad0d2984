"""Small scenes and losses for the tests of newtonsim.diff."""

import warp as wp

import newtonsim

UP = (0.0, 0.0, 1.0)


@wp.kernel
def add_body_height(
    body_q: wp.array(dtype=wp.transform), world: wp.array(dtype=int), losses: wp.array(dtype=float)
):
    b = wp.tid()
    wp.atomic_add(losses, world[b], wp.transform_get_translation(body_q[b])[2])


@wp.kernel
def add_first_coordinate(per_world: int, q: wp.array(dtype=float), losses: wp.array(dtype=float)):
    w = wp.tid()
    wp.atomic_add(losses, w, q[w * per_world])


@wp.kernel
def add_weighted_square(
    step: wp.array(dtype=int), per_world: int, q: wp.array(dtype=float), losses: wp.array(dtype=float)
):
    w = wp.tid()
    x = q[w * per_world]
    wp.atomic_add(losses, w, float(step[0]) * x * x)


@wp.kernel
def add_square_root(per_world: int, qd: wp.array(dtype=float), losses: wp.array(dtype=float)):
    """NaN in worlds whose first velocity is negative."""
    w = wp.tid()
    wp.atomic_add(losses, w, wp.sqrt(qd[w * per_world]))


@wp.kernel
def add_squared_distance(x: wp.array(dtype=wp.vec3), losses: wp.array(dtype=float)):
    """Loss of the only world: squared distances of all particles from the origin."""
    wp.atomic_add(losses, 0, wp.length_sq(x[wp.tid()]))


@wp.func
def misjudged_square(x: float):
    return x * x


@wp.func_grad(misjudged_square)
def adj_misjudged_square(x: float, adj_ret: float):
    wp.adjoint[x] += 2.2 * x * adj_ret


@wp.kernel
def add_misjudged_square(per_world: int, q: wp.array(dtype=float), losses: wp.array(dtype=float)):
    """A loss whose gradient is a tenth too long."""
    w = wp.tid()
    wp.atomic_add(losses, w, misjudged_square(q[w * per_world]))


@wp.kernel
def add_distance(per_world: int, place: float, q: wp.array(dtype=float), losses: wp.array(dtype=float)):
    """A loss with a kink."""
    w = wp.tid()
    wp.atomic_add(losses, w, wp.abs(q[w * per_world] - place))


@wp.kernel
def add_distance_by_cases(
    per_world: int, place: float, q: wp.array(dtype=float), losses: wp.array(dtype=float)
):
    """The same, with a gradient of zero at the kink."""
    w = wp.tid()
    x = q[w * per_world]
    if x < place:
        wp.atomic_add(losses, w, place - x)
    elif x > place:
        wp.atomic_add(losses, w, x - place)


@wp.kernel
def add_whole_numbers(per_world: int, count: float, q: wp.array(dtype=float), losses: wp.array(dtype=float)):
    """A loss that jumps by a hundredth at `count` places in every unit, on a slope that its gradient sees."""
    w = wp.tid()
    x = q[w * per_world]
    wp.atomic_add(losses, w, x + 0.01 * wp.floor(count * x))


@wp.kernel
def add_faint(
    per_world: int, offset: float, slope: float, q: wp.array(dtype=float), losses: wp.array(dtype=float)
):
    """A slope beside a large constant, and its square beyond a thousand."""
    w = wp.tid()
    x = q[w * per_world]
    loss = offset + slope * x
    if x > 1000.0:
        loss = slope * x * x
    wp.atomic_add(losses, w, loss)


def sliders(worlds: int = 1, mass: float = 2.0, stiffness: float = 0.0) -> newtonsim.ModelBuilder:
    """A mass on a rail along x in every world, on a spring if stiffness is given."""
    one = newtonsim.ModelBuilder(up_vector=UP)
    body = one.add_body(mass=mass, I_m=wp.mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), key="mass")
    one.add_articulation()
    one.add_joint_prismatic(-1, body, axis=(1.0, 0.0, 0.0), armature=0.0)
    one.joint_stiffness[:] = [stiffness]
    builder = newtonsim.ModelBuilder(up_vector=UP)
    builder.replicate(one, worlds)
    return builder


def pendulums(worlds: int = 1) -> newtonsim.ModelBuilder:
    """A double pendulum in every world."""
    one = newtonsim.ModelBuilder(up_vector=UP)
    one.add_articulation()
    parent = -1
    for i in range(2):
        body = one.add_body(key=f"rod{i}")
        one.add_shape_capsule(body, pos=(0.0, 0.0, -0.25), radius=0.03, half_height=0.2, up_axis=2)
        anchor = wp.transform((0.0, 0.0, 0.0 if i == 0 else -0.5), wp.quat_identity())
        one.add_joint_revolute(parent, body, parent_xform=anchor, axis=(0.0, 1.0, 0.0), armature=0.0)
        parent = body
    one.joint_q[:] = [1.0, 0.6]
    one.joint_qd[:] = [0.5, -1.5]
    builder = newtonsim.ModelBuilder(up_vector=UP)
    builder.replicate(one, worlds)
    return builder


def hinged_boxes() -> newtonsim.ModelBuilder:
    """A box on the ground with another one hinged to its top, and a third one on the ground beside them."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    lower, upper, other = (
        builder.add_body(origin=wp.transform(p, wp.quat_identity()))
        for p in ((0.0, 0.0, 0.1), (0.0, 0.0, 0.31), (0.4, 0.0, 0.1))
    )
    for body in (lower, upper, other):
        builder.add_shape_box(body, hx=0.19, hy=0.15, hz=0.1)
    anchors = [wp.transform((0.0, 0.0, z), wp.quat_identity()) for z in (0.1, -0.11)]
    options = {"parent_xform": anchors[0], "child_xform": anchors[1], "armature": 0.0}
    builder.add_articulation()
    builder.add_joint_free(lower)
    builder.add_joint_revolute(lower, upper, axis=(0.0, 1.0, 0.0), **options)
    builder.set_ground_plane()
    return builder


def resting_cloth() -> newtonsim.ModelBuilder:
    """A cloth that touches the ground."""
    builder = newtonsim.ModelBuilder(up_vector=UP)
    options = {"dim_x": 4, "dim_y": 3, "cell_x": 0.1, "cell_y": 0.1, "mass": 0.05, "particle_radius": 0.02}
    options |= {"tri_ke": 1.0e3, "tri_ka": 1.0e3, "edge_ke": 0.01}
    builder.add_cloth_grid(pos=(0.0, 0.0, 0.02), rot=wp.quat_identity(), vel=(0.0, 0.0, 0.0), **options)
    builder.set_ground_plane()
    return builder


def body_heights(model: newtonsim.Model):
    """Loss: sum of the heights of a world's bodies."""

    def loss(state: newtonsim.State, losses: wp.array) -> None:
        inputs = [state.body_q, model.body_world, losses]
        wp.launch(add_body_height, model.body_count, inputs, device=model.device)

    return loss


def by_world(model: newtonsim.Model, kernel: wp.Kernel, *arguments: object, of: str = "joint_q"):
    """Loss by a kernel with one thread a world, that takes the number of coordinates of each."""
    per_world = len(getattr(model, of)) // model.world_count

    def loss(state: newtonsim.State, losses: wp.array) -> None:
        inputs = [per_world, *arguments, getattr(state, of), losses]
        wp.launch(kernel, model.world_count, inputs, device=model.device)

    return loss


def first_coordinate(model: newtonsim.Model):
    """Loss: the first coordinate of each world."""
    return by_world(model, add_first_coordinate)
