"""What finalize refuses: every case is one edit of a sound builder, and the message names the element."""

import math

import numpy as np
import pytest
import warp as wp

from newtonsim import DeviceError, JointAxis, Mesh, ModelBuilder, ModelError, envs, warmup


def sound() -> ModelBuilder:
    builder = ModelBuilder()
    base = builder.add_body(mass=1.0, I_m=np.eye(3), key="base")
    arm = builder.add_body(mass=1.0, I_m=np.eye(3), key="arm")
    builder.add_joint_free(base, key="root")
    builder.add_joint_revolute(base, arm, key="elbow", limit_lower=-1.0, limit_upper=1.0)
    builder.add_shape_sphere(arm, density=0.0, key="ball")
    for i in range(4):
        builder.add_particle((float(i), float(i * i), float(i == 3)), (0, 0, 0), 1.0)
    builder.add_spring(0, 1, 1.0, 0.0, 0.0)
    builder.add_triangle(0, 1, 2)
    builder.add_tetrahedron(0, 1, 2, 3)
    builder.add_edge(0, 3, 1, 2)
    builder.add_muscle([0, 1], [(0, 0, 0), (0, 0, 0)], 1, 1, 1, 1, 1)
    return builder


def test_the_sound_builder_is_sound():
    sound().finalize(device="cpu")


def set_item(name, index, value):
    def edit(builder):
        getattr(builder, name)[index] = value

    return edit


def close_cycle(builder):
    builder.joint_parent[0] = 1


def second_parent(builder):
    builder.add_joint_revolute(-1, 1, key="brace")


def massless_link(builder):
    ghost = builder.add_body(key="ghost")
    hand = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_revolute(1, ghost, key="wrist")
    builder.add_joint_revolute(ghost, hand)


def drop_mass(builder):
    builder.body_mass[1] = 0.0
    builder.body_inertia[1] = np.zeros((3, 3))


CASES = {
    "body without mass": (drop_mass, "body 'arm' has no mass.*'elbow'"),
    "massless body with heavy descendants": (massless_link, "body 'ghost' has no mass.*'wrist'"),
    "cycle": (close_cycle, "body '(base|arm)'.*cycle"),
    "child of two joints": (second_parent, "body 'arm'.*'elbow'.*'brace'"),
    "reversed limit": (set_item("joint_limit_lower", 0, 2.0), "joint 'elbow'.*2.*above.*1"),
    "parent out of range": (set_item("joint_parent", 1, 7), "joint 'elbow': parent 7"),
    "child out of range": (set_item("joint_child", 1, -1), "joint 'elbow': child -1"),
    "shape on no body": (set_item("shape_body", 0, 9), "shape 'ball': body 9"),
    "spring to no particle": (set_item("spring_indices", 1, 4), "spring 0.*4 is not a valid particle"),
    "triangle of no particle": (
        set_item("tri_indices", 0, (0, 1, -1)),
        "triangle 0.*-1 is not a valid particle",
    ),
    "tetrahedron of no particle": (
        set_item("tet_indices", 0, (0, 1, 2, 8)),
        "tetrahedron 0.*8 is not a valid particle",
    ),
    "edge of no particle": (set_item("edge_indices", 0, (0, 1, -1, 2)), "edge 0.*-1 is not a valid particle"),
    "muscle on no body": (set_item("muscle_bodies", 1, 5), "muscle point 1.*5 is not a valid body"),
    "NaN position": (set_item("particle_q", 2, wp.vec3(0, math.nan, 0)), "particle 2: particle_q"),
    "infinite mass": (set_item("body_mass", 1, math.inf), "body 'arm': body_mass is inf"),
    "NaN coordinate": (set_item("joint_q", 7, math.nan), "joint 'elbow': joint_q"),
    "NaN limit": (set_item("joint_limit_upper", 0, math.nan), "joint 'elbow': joint_limit_upper"),
    "NaN drive": (set_item("joint_target_ke", 0, math.nan), "joint 'elbow': joint_target_ke"),
    "NaN velocity of the root": (set_item("joint_qd", 2, math.nan), "joint 'root': joint_qd"),
    "NaN friction": (set_item("shape_material_mu", 0, math.nan), "shape 'ball': shape_material_mu"),
    "negative friction": (set_item("shape_material_mu", 0, -0.5), "shape 'ball': friction mu -0.5"),
    "restitution above 1": (set_item("shape_material_restitution", 0, 1.5), "shape 'ball': restitution 1.5"),
    "negative restitution": (set_item("shape_material_restitution", 0, -1.0), "shape 'ball': restitution -1"),
    "unknown joint type": (set_item("joint_type", 1, 42), "joint 'elbow': joint_type 42"),
    "unknown mode": (set_item("joint_axis_mode", 0, 9), "joint 'elbow': joint_axis_mode 9"),
    "short list": (lambda b: b.joint_target_ke.pop(), "joint_target_ke: expected 1 entries.*got 0"),
    "long coordinates": (lambda b: b.joint_q.append(0.0), "joint_q: expected 8 entries, got 9"),
    "short tuple": (set_item("tri_materials", 0, (1.0, 2.0)), "tri_materials"),
    "text for a number": (set_item("body_mass", 0, "heavy"), "body_mass"),
    "indefinite inertia": (
        set_item("body_inertia", 1, np.diag([1.0, 1.0, -0.1])),
        "body 'arm'.*positive definite",
    ),
    "lopsided inertia": (
        set_item("body_inertia", 1, np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 1.0]])),
        "body 'arm'.*symmetric",
    ),
    "negative mass": (set_item("body_mass", 1, -1.0), "body 'arm'.*negative"),
    "negative spring": (set_item("spring_stiffness", 0, -1.0), "spring 0: spring_stiffness -1 is negative"),
    "negative membrane": (
        set_item("tri_materials", 0, (-1.0, 1.0, 0.0, 0.0, 0.0)),
        "triangle 0: tri_ke -1 is negative",
    ),
    "membrane without rest": (
        set_item("tri_materials", 0, (1.0, -1.1, 0.0, 0.0, 0.0)),
        "triangle 0: tri_ka -1.1",
    ),
    "negative bending": (set_item("edge_bending_properties", 0, (0.0, -2.0)), "edge 0: edge_kd -2"),
    "negative shear modulus": (
        set_item("tet_materials", 0, (-1e3, 1e3, 0.0)),
        "tetrahedron 0: k_mu -1000",
    ),
    "solid without rest": (set_item("tet_materials", 0, (3.0, -2.5, 0.0)), "tetrahedron 0: k_lambda -2.5"),
    "negative armature": (set_item("joint_armature", 6, -1.0), "joint 'elbow': joint_armature"),
    "zero quaternion": (set_item("joint_X_p", 1, wp.transform((0, 0, 0), (0, 0, 0, 0))), "joint_X_p"),
    "zero root quaternion": (lambda b: b.joint_q.__setitem__(slice(3, 7), [0.0] * 4), "quaternion"),
    "axis without direction": (set_item("joint_axis", 0, wp.vec3(0, 0, 0)), "joint 'elbow'.*direction"),
    "filter of no shape": (lambda b: b.shape_collision_filter_pairs.add((0, 3)), r"\(0, 3\)"),
    "colour without alpha": (set_item("shape_color", 0, (1, 1, 1)), "shape 'ball': shape_color: .*RGBA"),
    "colour by name": (set_item("shape_color", 0, "red"), "shape 'ball': shape_color: .*'red'"),
    "pixels for a texture": (
        set_item("shape_texture", 0, np.zeros((4, 4, 3), np.uint8)),
        "shape 'ball': shape_texture: expected the path of an image or None, got array",
    ),
    "gravity": (lambda b: setattr(b, "gravity", math.nan), "gravity"),
}


def test_coordinates_of_no_joint_are_refused():
    """A body alone gets its free joint from finalize, after the coordinates that the builder has."""
    builder = ModelBuilder()
    builder.add_shape_sphere(builder.add_body(), radius=0.1)
    builder.joint_q = [0.0, 0.0, 1.0]
    with pytest.raises(ModelError, match="joint_q: expected 0 entries, got 3"):
        builder.finalize("cpu")


@pytest.mark.parametrize("case", CASES)
def test_finalize_names_what_is_wrong(case):
    edit, message = CASES[case]
    builder = sound()
    edit(builder)
    with pytest.raises(ModelError, match=message):
        builder.finalize(device="cpu")


@pytest.mark.parametrize("copies", [1, 2])
def test_wrong_index_cannot_reach_into_another_copy(copies):
    env = sound()
    env.joint_parent[1] = 3  # no body here, but one of the next copy
    main = ModelBuilder()
    with pytest.raises(ModelError, match="joint 'elbow': parent 3"):
        main.replicate(env, copies)
    assert main.body_count == main.joint_count == main.num_envs == 0


def test_infinite_limits_are_legal():
    builder = sound()
    builder.joint_limit_lower[0], builder.joint_limit_upper[0] = -math.inf, math.inf
    model = builder.finalize(device="cpu")
    assert model.joint_limit_upper.numpy()[0] == math.inf


def test_massless_body_welded_to_a_heavy_one_is_legal():
    builder = sound()
    frame = builder.add_body(key="frame")
    builder.add_joint_fixed(1, frame)
    builder.finalize(device="cpu")


def test_massless_base_between_a_joint_and_a_welded_mass_is_legal():
    builder = ModelBuilder()
    link, weight = builder.add_body(), builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_revolute(-1, link)
    builder.add_joint_fixed(link, weight)
    builder.finalize(device="cpu")


def test_quaternions_are_normalised():
    builder = ModelBuilder()
    body = builder.add_body(mass=1.0, I_m=np.eye(3))
    builder.add_joint_ball(-1, body, parent_xform=((0, 0, 0), (0, 0, 0, 2)))
    builder.joint_q[:] = [0.0, 0.0, 0.5, 0.5]
    builder.body_q[0] = wp.transform((0, 0, 0), (0, 3, 0, 0))
    model = builder.finalize(device="cpu")
    for row in (model.joint_q.numpy(), model.joint_X_p.numpy()[0, 3:], model.body_q.numpy()[0, 3:]):
        assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-6)


def test_validation_happens_before_allocation(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("allocated before validation")

    builder = sound()
    builder.joint_limit_lower[0] = 5.0
    monkeypatch.setattr(wp, "array", refuse)
    monkeypatch.setattr(wp, "zeros", refuse)
    with pytest.raises(ModelError):
        builder.finalize(device="cpu")


@pytest.mark.parametrize(
    "call",
    [
        lambda b: JointAxis((0, 0, 0)),
        lambda b: JointAxis((0, 1)),
        lambda b: b.add_body(origin=((0, 0, 0), (0, 0, 0, 0))),
        lambda b: b.add_body(mass=-1.0),
        lambda b: b.add_shape_mesh(-1),
        lambda b: b.add_shape_sdf(-1),
        lambda b: b.add_shape_box(-1, pos=(0, 0)),
        lambda b: b.add_shape_capsule(-1, up_axis=3),
        lambda b: b.add_shape_plane((0, 0, 0, 1)),
        lambda b: b.add_shape_sphere(-1, density=-1.0),
        lambda b: b.add_joint(1, -1, 0),
        lambda b: b.add_joint_d6(-1, 0, linear_axes=[JointAxis((1, 0, 0))] * 4),
        lambda b: b.set_ground_plane(normal=(0, 0, 0)),
        lambda b: b.add_muscle([0], [], 1, 1, 1, 1, 1),
        lambda b: b.add_cloth_grid((0, 0, 0), None, (0, 0, 0), 0, 1, 1.0, 1.0, 1.0),
        lambda b: Mesh([(0, 0, 0)], [0, 0, 1]),
        lambda b: Mesh([(0, 0, 0)], [0, 0]),
        lambda b: b.replicate(ModelBuilder(), -1),
    ],
)
def test_methods_refuse_nonsense(call):
    builder = ModelBuilder()
    builder.add_body(mass=1.0, I_m=np.eye(3))
    with pytest.raises(ModelError):
        call(builder)


MISSING = "cuda:99"


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ModelBuilder().finalize(MISSING),
        lambda: warmup(device=MISSING),
        lambda: Mesh(np.eye(3), [[0, 1, 2]]).finalize(MISSING),
        lambda: envs.make("CartPole", 1, device=MISSING),
    ],
    ids=["finalize", "warmup", "mesh", "environment"],
)
def test_a_device_that_is_not_there_is_no_other(ask):
    with pytest.raises(DeviceError, match=rf"device: no device '{MISSING}'; there are cpu"):
        ask()


def test_more_than_kernels_can_count_is_refused_before_it_is_made():
    """They ended with a MemoryError of NumPy, or of the machine."""
    robot = ModelBuilder()
    robot.add_joint_free(robot.add_body(mass=1.0, I_m=np.eye(3)))
    place = {"pos": (0.0, 0.0, 0.0), "rot": (0.0, 0.0, 0.0, 1.0), "vel": (0.0, 0.0, 0.0)}
    plane = {"dim_x": 10**7, "dim_y": 10**7, "cell_x": 0.1, "cell_y": 0.1}
    block = {**plane, "dim_z": 1, "cell_z": 0.1, "density": 1.0, "k_mu": 1.0, "k_lambda": 1.0, "k_damp": 0.0}
    for call, text in (
        (lambda b: b.replicate(robot, 10**12), "replicate: 7000000000000 items"),
        (lambda b: b.add_cloth_grid(**place, **plane, mass=1.0), "cloth grid: 100000020000001 items"),
        (lambda b: b.add_soft_grid(**place, **block), "soft grid: 200000040000002 items"),
    ):
        builder = ModelBuilder()
        with pytest.raises(ModelError, match=text):
            call(builder)
        assert builder.body_count == builder.particle_count == 0


def test_gravity_that_is_no_number_is_a_model_error(device):
    model = ModelBuilder().finalize(device)
    for wrong in ("down", [[1.0], [2.0, 3.0]], None, object()):
        with pytest.raises(ModelError, match="gravity: expected 3 finite numbers"):
            model.gravity = wrong
