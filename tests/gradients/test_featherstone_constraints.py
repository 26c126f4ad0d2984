"""Gradients of FeatherstoneSolver through limits, bounded drives, dry friction, loops and couplings."""

import itertools
import math

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.runtime.active_tape import without_tape

DT = 1.0 / 120.0


@wp.kernel
def pack_bodies(
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    out: wp.array2d(dtype=float),
):
    b = wp.tid()
    for k in range(7):
        out[b, k] = body_q[b][k]
    for k in range(6):
        out[b, 7 + k] = body_qd[b][k]


class Rollout:
    """States and inputs of a rollout."""

    def __init__(self, builder, device, steps, worlds=1, requires_grad=True, dt=DT, **options):
        if worlds > 1:
            many = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
            for _ in range(worlds):
                many.add_builder(builder)
            builder = many
        self.dt = dt
        self.model = builder.finalize(device, requires_grad=requires_grad)
        self.solver = newtonsim.FeatherstoneSolver(self.model, **options)
        self.states = [self.model.state() for _ in range(steps + 1)]
        self.control = self.model.control()
        shape = (self.model.body_count, 13)
        self.bodies = wp.zeros(shape, dtype=float, device=device, requires_grad=requires_grad)
        self._acting = [wp.zeros_like(self.solver.constraints.world_state) for _ in range(steps)]
        self._graph = None

    def run(self) -> wp.array:
        for i, (before, after) in enumerate(itertools.pairwise(self.states)):
            self.solver.step(self.model, before, after, self.control, None, self.dt)
            with without_tape():
                wp.copy(self._acting[i], self.solver.constraints.world_state)
        end = self.states[-1]
        inputs = [end.body_q, end.body_qd]
        wp.launch(pack_bodies, self.model.body_count, inputs, [self.bodies], device=self.model.device)
        return self.bodies

    @property
    def acted(self) -> np.ndarray:
        """Whether constraints acted in the last run (steps, worlds)."""
        return np.array([state.numpy() > 0 for state in self._acting])

    def fresh(self) -> wp.array:
        """Run from a cold start, so that every call computes the same."""
        self.solver.reset()
        return self.run()

    def again(self) -> wp.array:
        """`fresh` without the host's part of the steps, after the first time."""
        if self._graph is None:
            self.fresh()
            with wp.ScopedCapture(device=self.model.device) as capture:
                self.fresh()
            self._graph = capture.graph
        wp.capture_launch(self._graph)
        return self.bodies

    def check(self, *names, rtol=1.0e-2, steps=(0.04, 0.02, 0.01), columns=None):
        """Compare the gradient vectors by arrays with central differences, plain and extrapolated to zero.

        The loss weighs all outputs at random. Of all steps, and of all pairs of neighbouring ones, what
        agrees best counts, for all entries together: rounding spoils short steps and is amplified by
        extrapolation, curvature and switches spoil long ones.
        Of arrays with several columns the first ones are checked: rotations have no length to vary.
        """
        shape = self.bodies.shape
        weights = np.random.default_rng(0).uniform(-1.0, 1.0, shape).astype(np.float32)
        seed = wp.array(weights, dtype=float, device=self.model.device)
        arrays = {name: self.array(name) for name in names}
        for array in arrays.values():
            array.grad.zero_()
        with wp.Tape() as tape:
            out = self.fresh()
        tape.backward(grads={out: seed})
        gradients = {name: a.grad.numpy().astype(np.float64) for name, a in arrays.items()}
        if columns is not None:
            gradients = {name: g[:, :columns] for name, g in gradients.items()}
        gradients = {name: g.flatten() for name, g in gradients.items()}
        tape.zero()
        errors = {}
        for name, array in arrays.items():
            slopes = [self._slopes(array, weights, step, columns) for step in steps]
            limits = [
                fine + (fine - coarse) / ((h / k) ** 2 - 1.0)
                for coarse, fine, h, k in zip(slopes, slopes[1:], steps, steps[1:])
            ]
            size = max(np.linalg.norm(limits[-1]), 1.0e-12)
            off = [np.linalg.norm(gradients[name] - d) / size for d in (*slopes, *limits)]
            errors[name] = min(off)
        print({name: f"{error:.1e}" for name, error in errors.items()})
        assert max(errors.values()) < rtol, errors
        return gradients

    def _slopes(self, array, weights, step, columns):
        """Central differences by all entries of an array, or by those in its first columns."""
        base, slopes = array.numpy().copy(), []
        entries = np.arange(base.size).reshape(base.shape)
        for entry in entries.flatten() if columns is None else entries[:, :columns].flatten():
            losses, places = [], []
            for sign in (1.0, -1.0):
                moved = base.copy()
                moved.reshape(-1)[entry] += sign * step
                array.assign(moved)
                places.append(float(moved.reshape(-1)[entry]))
                losses.append(float((self.again().numpy().astype(np.float64) * weights).sum()))
            slopes.append((losses[0] - losses[1]) / (places[0] - places[1]))
        array.assign(base)
        return np.array(slopes)

    def gradient(self, name):
        """Gradient of the sum of all outputs."""
        array = self.array(name)
        array.grad.zero_()
        with wp.Tape() as tape:
            out = self.fresh()
        tape.backward(grads={out: wp.ones_like(out)})
        gradient = array.grad.numpy().copy()
        tape.zero()
        return gradient

    def array(self, name):
        owner, _, attribute = name.partition(".")
        source = {"state": self.states[0], "control": self.control, "model": self.model}[owner]
        return getattr(source, attribute)


def add_rod(builder, length=0.5, mass=1.0, key=""):
    """A rod that hangs down from its frame, with an inertia about all axes."""
    inertia = mass * length**2 / 12.0
    I_m = wp.mat33(inertia, 0.0, 0.0, 0.0, 1.1 * inertia, 0.0, 0.0, 0.0, 0.2 * inertia)
    return builder.add_body(com=(0.0, 0.0, -0.5 * length), I_m=I_m, mass=mass, key=key)


def chain(count=2, **joint):
    """Rods on revolute joints; the options are those of every joint, or lists of theirs."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    parent = -1
    for i in range(count):
        body = add_rod(builder, key=f"rod{i}")
        anchor = wp.transform((0.0, 0.0, 0.0 if i == 0 else -0.5), wp.quat_identity())
        options = {name: value[i] if isinstance(value, list) else value for name, value in joint.items()}
        axis = newtonsim.JointAxis((0.0, 1.0, 0.0), armature=0.01, **options)
        builder.add_joint_revolute(parent, body, parent_xform=anchor, axis=axis)
        parent = body
    return builder


def test_joint_limit(device):
    builder = chain(limit_lower=[-3.0, -0.4], limit_upper=[3.0, 0.4])
    builder.joint_q[:] = [0.5, 0.2]
    builder.joint_qd[:] = [-1.0, 4.0]
    rollout = Rollout(builder, device, 25)
    # longer differences would move the impact to another step, where the slope is another one
    rollout.check("state.joint_q", "model.joint_limit_upper", steps=(0.004, 0.002, 0.001))
    rollout.check("state.joint_qd", "model.body_mass")
    assert rollout.acted.any()
    assert not rollout.acted.all()


@pytest.mark.parametrize("references", ["start", "end"])
def test_limit_by_reference(references, device):
    soft = {"limit_solref": (0.08, 0.6), "limit_solimp": (0.8, 0.95, 0.05, 0.5, 2.0)}
    builder = chain(limit_lower=[-3.0, -0.4], limit_upper=[3.0, 0.4], damping=0.1, **soft)
    builder.joint_q[:] = [0.5, 0.2]
    builder.joint_qd[:] = [-1.0, 4.0]
    rollout = Rollout(builder, device, 25, references=references)
    rollout.check("state.joint_q", "model.joint_limit_upper", steps=(0.004, 0.002, 0.001))
    rollout.check("state.joint_qd", steps=(0.08, 0.04, 0.02))
    assert rollout.acted.any()
    assert not rollout.acted.all()


@pytest.mark.parametrize("kind", ["drive", "spring"])
def test_limit_by_reference_beside_a_tendon(kind, device):
    """A limit yields by what its dof resists, to which implicit forces of a spatial tendon belong."""
    soft = {"limit_solref": (0.08, 0.6), "limit_solimp": (0.8, 0.95, 0.05, 0.5, 2.0)}
    builder = chain(limit_lower=[-3.0, -0.4], limit_upper=[3.0, 0.4], damping=0.1, **soft)
    pull = {"mode": 1, "target_ke": 80.0, "target_kd": 6.0, "action": 0.5}
    if kind == "spring":
        pull = {"stiffness": 80.0, "damping": 6.0, "spring_length": (0.1, 0.1)}
    builder.add_tendon_spatial([(-1, (0.4, 0.1, 0.2)), (1, (0.05, 0.0, -0.3))], **pull)
    builder.joint_q[:] = [0.5, 0.2]
    builder.joint_qd[:] = [-1.0, 4.0]
    rollout = Rollout(builder, device, 25, references="end")
    rollout.check("state.joint_q", steps=(0.004, 0.002, 0.001))
    rollout.check(f"model.tendon_{'target_kd' if kind == 'drive' else 'damping'}")
    assert rollout.acted.any()


def test_lower_limit_with_margin(device):
    builder = chain(count=1, limit_lower=0.3, limit_upper=3.0, limit_solref=(-400.0, -5.0), limit_margin=0.1)
    builder.joint_q[:] = [0.35]
    builder.joint_qd[:] = [-0.5]
    rollout = Rollout(builder, device, 20)
    rollout.check("state.joint_q", "state.joint_qd", "model.joint_limit_lower", steps=(0.01, 0.005, 0.0025))
    assert rollout.acted.any()


def test_contact_by_reference(device):
    """A ball that skids over a ground which yields."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    ball = builder.add_body(origin=wp.transform((0.0, 0.0, 0.098), wp.quat_identity()))
    shape = builder.add_shape_sphere(ball, radius=0.1, density=400.0, mu=0.1)
    builder.shape_solref[shape], builder.shape_solimp[shape] = (0.06, 0.5), (0.8, 0.95, 0.05, 0.5, 2.0)
    builder.set_ground_plane(mu=0.1)
    rollout = Rollout(builder, device, 20)
    rollout.states[0].joint_qd.assign(np.array([0.0, 0.0, 0.0, 1.5, 0.2, -0.1], np.float32))
    rollout.check("state.joint_qd", steps=(0.02, 0.01, 0.005))
    heights = [float(state.body_q.numpy()[0, 2]) for state in rollout.states]
    assert max(heights) < 0.1
    assert rollout.acted.all()


def test_pressed_against_a_limit_only_the_limit_counts(device):
    builder = chain(count=1, limit_lower=-3.0, limit_upper=0.4, mode=newtonsim.JOINT_MODE_FORCE)
    builder.joint_q[:] = [0.4]
    builder.joint_act[:] = [8.0]
    rollout = Rollout(builder, device, 60)
    rollout.check("model.joint_limit_upper", steps=(0.01, 0.005, 0.0025))
    assert rollout.acted.all()
    assert np.abs(rollout.gradient("control.joint_act")).max() < 1.0e-7


def test_velocity_limit(device):
    builder = chain(velocity_limit=[100.0, 2.0], mode=newtonsim.JOINT_MODE_FORCE)
    builder.joint_q[:] = [0.5, 0.2]
    builder.joint_qd[:] = [-1.0, 1.5]
    builder.joint_act[:] = [0.0, 1.5]
    rollout = Rollout(builder, device, 25)
    rollout.check("state.joint_q", "state.joint_qd", "control.joint_act", "model.joint_velocity_limit")
    assert rollout.acted.any()


@pytest.mark.parametrize("mode", ["POSITION", "VELOCITY"])
def test_effort_limit(mode, device):
    builder = chain(
        mode=getattr(newtonsim, f"JOINT_MODE_TARGET_{mode}"),
        target_ke=[40.0, 4.0],
        target_kd=[2.0, 0.5],
        effort_limit=[3.0, 100.0],
    )
    builder.joint_q[:] = [0.5, 0.2]
    builder.joint_qd[:] = [-1.0, 1.5]
    builder.joint_act[:] = [1.5, 0.3]
    rollout = Rollout(builder, device, 25)
    names = ("joint_effort_limit", "joint_target_ke", "joint_target_kd", "body_mass")
    rollout.check(
        "state.joint_q", "state.joint_qd", "control.joint_act", *(f"model.{name}" for name in names)
    )
    assert rollout.acted.any()


def test_least_effort(device):
    """At the least effort, its gradient is that of the bound, and the largest has none."""
    builder = chain(
        mode=newtonsim.JOINT_MODE_TARGET_POSITION, target_ke=40.0, target_kd=2.0, effort_limit=[30.0, 100.0]
    )
    builder.joint_effort_lower[:] = [-3.0, -90.0]
    builder.joint_q[:], builder.joint_act[:] = [0.5, 0.2], [-1.5, 0.3]
    rollout = Rollout(builder, device, 25)
    rollout.check("state.joint_q", "control.joint_act", "model.joint_effort_lower", "model.body_mass")
    assert np.abs(rollout.gradient("model.joint_effort_limit")).max() == 0.0
    assert abs(rollout.gradient("model.joint_effort_lower")[0]) > 0.0
    assert rollout.acted.any()


def test_drive_row_below_its_limit(device):
    """A drive that might exceed its limit is a row; if it does not, it is a soft equation."""
    builder = chain(
        count=1,
        mode=newtonsim.JOINT_MODE_TARGET_POSITION,
        target_ke=1.0e4,
        target_kd=10.0,
        effort_limit=60.0,
    )
    builder.joint_q[:] = [0.5]
    builder.joint_qd[:] = [-1.0]
    builder.joint_act[:] = [0.5]
    rollout = Rollout(builder, device, 5)
    rollout.check("control.joint_act")
    rollout.check("state.joint_qd", steps=(0.8, 0.4, 0.2))
    rollout.check("model.joint_target_ke", steps=(2000.0, 1000.0, 500.0), rtol=2.0e-2)
    assert rollout.acted.any()


def test_dry_friction(device):
    builder = chain()
    builder.joint_friction[:] = [0.4, 3.0]
    builder.joint_q[:] = [0.9, 0.1]
    builder.joint_qd[:] = [2.0, 0.0]
    rollout = Rollout(builder, device, 25)
    rollout.check("state.joint_q", "model.joint_friction", "model.body_mass")
    assert rollout.acted.all()


def two_arms():
    """Two bent arms of ball joints side by side, whose last links are free to be tied together."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for side in (-0.2, 0.2):
        builder.add_articulation()
        parent = -1
        for i in range(2):
            body = add_rod(builder, length=0.4, mass=1.0 + 0.2 * i, key=f"rod{side}{i}")
            place = (side, 0.0, 0.0) if i == 0 else (0.0, 0.0, -0.4)
            turn = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), side)
            builder.add_joint_ball(parent, body, parent_xform=wp.transform(place, turn), armature=0.01)
            parent = body
    bent = (0.0, math.sin(0.3), 0.0, math.cos(0.3)), (0.3, -math.sin(0.5), 0.0, math.cos(0.5))
    q = np.array(2 * bent) / np.linalg.norm(2 * bent, axis=1, keepdims=True)
    builder.joint_q[:] = q.flatten().tolist()
    builder.joint_qd[:] = np.random.default_rng(0).uniform(-1.0, 1.0, 12).tolist()
    return builder


def pose_of(builder, body):
    """World pose of a body."""
    model = builder.finalize("cpu")
    state = model.state()
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, None, state)
    return wp.transform(*state.body_q.numpy()[body])


def tip_frames(builder):
    """Frames in both last links that coincide: between their tips, with the world's axes."""
    poses = [pose_of(builder, body) for body in (1, 3)]
    tips = [wp.transform_point(pose, wp.vec3(0.0, 0.0, -0.4)) for pose in poses]
    middle = wp.transform(0.5 * (tips[0] + tips[1]), wp.quat_identity())
    return [wp.transform_inverse(pose) * middle for pose in poses]


EXACT = {"iterations": 200, "tolerance": 1.0e-7}
AXES = ((0.0, 0.6, 0.8), (1.0, 0.0, 0.0))
LOOPS = {
    "weld": (newtonsim.JOINT_FIXED, 0, 0),
    "ball": (newtonsim.JOINT_BALL, 0, 0),
    "hinge": (newtonsim.JOINT_REVOLUTE, 0, 1),
    "slider": (newtonsim.JOINT_PRISMATIC, 1, 0),
    "universal": (newtonsim.JOINT_UNIVERSAL, 0, 2),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_loop_joint(kind, device):
    builder = two_arms()
    joint_type, linear, angular = LOOPS[kind]
    axes = {"linear_axes": AXES[:linear], "angular_axes": AXES[:angular]}
    builder.add_loop_joint(joint_type, 1, 3, *tip_frames(builder), **axes)
    rollout = Rollout(builder, device, 12, **EXACT)
    rollout.check("state.joint_qd", "model.body_mass", steps=(0.1, 0.05, 0.025))
    names = ("constraint_X_p", "constraint_X_c", "joint_X_p")
    rollout.check(*(f"model.{name}" for name in names), steps=(0.004, 0.002, 0.001), columns=3)
    assert rollout.acted.all()


@pytest.mark.parametrize("kind", ["weld", "ball", "slider"])
def test_loop_joint_that_pushes_at_own_anchors(kind, device):
    """As Bullet does, while the anchors are apart and turned."""
    builder = two_arms()
    joint_type, linear, angular = LOOPS[kind]
    first, second = tip_frames(builder)
    second = second * wp.transform((0.02, 0.05, -0.03), wp.quat_rpy(0.2, -0.1, 0.1))
    axes = {"linear_axes": AXES[:linear], "angular_axes": AXES[:angular]}
    builder.add_loop_joint(joint_type, 1, 3, first, second, **axes)
    rollout = Rollout(builder, device, 3, **EXACT)
    rollout.solver.push_at_own_anchors()
    rollout.check("state.joint_qd", "model.body_mass", steps=(0.1, 0.05))
    names = ("model.constraint_X_p", "model.constraint_X_c")
    rollout.check(*names, steps=(0.004, 0.002), columns=3)
    assert rollout.acted.all()


def test_gradients_are_finite_where_euler_angles_are_not_unique(device):
    """A loop joint whose frames are a right angle apart about y."""
    builder = two_arms()
    first, second = tip_frames(builder)
    second = second * wp.transform((0.0, 0.0, 0.0), wp.quat_rpy(0.0, 0.5 * math.pi, 0.0))
    builder.add_loop_joint(newtonsim.JOINT_FIXED, 1, 3, first, second)
    rollout = Rollout(builder, device, 1, **EXACT)
    rollout.solver.push_at_own_anchors()
    with wp.Tape() as tape:
        out = rollout.fresh()
    tape.backward(grads={out: wp.ones_like(out)})
    for name in ("state.joint_q", "model.constraint_X_c", "model.body_mass"):
        assert np.isfinite(rollout.array(name).grad.numpy()).all(), name


def test_slider_at_its_limit(device):
    builder = two_arms()
    axis = newtonsim.JointAxis((1.0, 0.0, 0.0), limit_lower=-0.5, limit_upper=0.02)
    builder.add_loop_joint(newtonsim.JOINT_PRISMATIC, 1, 3, *tip_frames(builder), linear_axes=[axis])
    rollout = Rollout(builder, device, 12, **EXACT)
    # the upper arms swing towards each other, about y
    rollout.states[0].joint_qd.assign([0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0])
    gradients = rollout.check("model.constraint_limit_upper", steps=(3.2e-3, 1.6e-3, 8.0e-4))
    assert np.abs(gradients["model.constraint_limit_upper"]).max() > 0.01


@pytest.mark.parametrize("soft", [False, True])
def test_loop_with_compliance(soft, device):
    builder = two_arms()
    options = {"linear_compliance": 1.0e-3} if soft else {"max_force": 0.3}
    ends = [tuple(frame.p) for frame in tip_frames(builder)]
    builder.add_constraint_connect(1, 3, *ends, **options)
    rollout = Rollout(builder, device, 15)
    name = "model.constraint_linear_compliance" if soft else "model.constraint_max_force"
    rollout.check("state.joint_qd", "model.body_mass", steps=(0.1, 0.05, 0.025))
    rollout.check(name, steps=(4.0e-4, 2.0e-4, 1.0e-4) if soft else (0.04, 0.02, 0.01))
    assert rollout.acted.all()


def test_distance(device):
    """A rope between a free body and the tip of an arm."""
    builder = two_arms()
    ends = tip_frames(builder)
    ends[1] = ends[1] * wp.transform((0.1, 0.2, 0.05), wp.quat_identity())
    builder.add_constraint_distance(1, 3, *ends, max_distance=0.2)
    rollout = Rollout(builder, device, 12)
    rollout.check("state.joint_qd", "model.constraint_distance_upper", steps=(0.02, 0.01, 0.005))
    rollout.check("model.constraint_X_p", "model.constraint_X_c", steps=(0.02, 0.01, 0.005), columns=3)
    assert rollout.acted.any()


def test_coupling(device):
    builder = chain(3)
    builder.add_constraint_coupling(2, 0, (0.1, -0.5, 0.3))
    builder.joint_q[:] = [0.6, -0.3, 0.1 - 0.3 + 0.3 * 0.36]
    builder.joint_qd[:] = [1.0, -0.5, 0.2]
    rollout = Rollout(builder, device, 20)
    rollout.check("state.joint_q", "state.joint_qd", "model.body_mass", "model.constraint_coefficients")
    assert rollout.acted.all()


SOFT = {"solref": (0.1, 0.7), "solimp": (0.6, 0.9, 0.1, 0.5, 2.0)}
BY_REFERENCE = {
    "weld": (newtonsim.JOINT_FIXED, {"torque_scale": 0.4, **SOFT}),
    "weld of the stiffness given": (newtonsim.JOINT_FIXED, {"solref": (-200.0, -5.0)}),
    "connect": (newtonsim.JOINT_BALL, SOFT),
}


@pytest.mark.parametrize("references", ["start", "end"])
@pytest.mark.parametrize("kind", BY_REFERENCE)
def test_loop_by_reference(kind, references, device):
    """Two arms that were tied together a little beside, so that the ties pull from the start."""
    builder = two_arms()
    joint_type, options = BY_REFERENCE[kind]
    first, second = tip_frames(builder)
    second = second * wp.transform((0.02, 0.05, -0.03), wp.quat_rpy(0.2, -0.1, 0.1))
    builder.add_loop_joint(joint_type, 1, 3, first, second, **options)
    # implicit damping has a part in the softness of late rows
    builder.joint_damping[:] = [0.2] * 12
    rollout = Rollout(builder, device, 12, references=references, **EXACT)
    names = ("state.joint_q", "state.joint_qd", "model.body_mass", "model.joint_damping")
    rollout.check(*names, steps=(0.04, 0.02, 0.01))
    names = ("constraint_X_p", "constraint_X_c", "joint_X_p")
    rollout.check(*(f"model.{name}" for name in names), steps=(0.004, 0.002, 0.001), columns=3)
    assert rollout.acted.all()


@pytest.mark.parametrize("references", ["start", "end"])
def test_coupling_by_reference(references, device):
    builder = chain(3, damping=[0.3, 0.2, 0.4])
    builder.add_constraint_coupling(2, 0, (0.1, -0.5, 0.3), **SOFT)
    builder.joint_q[:] = [0.6, -0.3, 0.1]
    builder.joint_qd[:] = [1.0, -0.5, 0.2]
    rollout = Rollout(builder, device, 20, references=references)
    rollout.check("state.joint_q", "state.joint_qd", "model.body_mass", "model.constraint_coefficients")
    assert rollout.acted.all()


@pytest.mark.parametrize("references", ["start", "end"])
def test_dry_friction_by_reference(references, device):
    """One joint slips and the other creeps; where the former turned round, the slope would jump."""
    given = {"friction_solref": (0.05, 1.0), "friction_solimp": SOFT["solimp"], "damping": 0.2}
    builder = chain(friction=[0.4, 3.0], **given)
    builder.joint_q[:] = [0.9, 0.1]
    builder.joint_qd[:] = [2.0, 0.0]
    rollout = Rollout(builder, device, 12, references=references)
    names = ("state.joint_q", "state.joint_qd", "model.joint_friction", "model.body_mass")
    rollout.check(*names, "model.joint_damping")
    assert rollout.acted.all()


def test_ball_limits(device):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    body = add_rod(builder)
    turn = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.5 * np.pi)
    builder.add_joint_ball(
        -1,
        body,
        parent_xform=wp.transform((0.0, 0.0, 0.0), turn),
        child_xform=wp.transform((0.0, 0.0, 0.0), turn),
        swing_limit=0.5,
        twist_lower=-0.3,
        twist_upper=0.3,
        armature=0.01,
    )
    builder.joint_qd[:] = [4.0, 4.0, 2.0]
    rollout = Rollout(builder, device, 30)
    rollout.check("state.joint_qd", "model.body_mass", steps=(0.02, 0.01, 0.005))
    rollout.check("model.joint_swing_limit", "model.joint_twist_upper", steps=(0.004, 0.002, 0.001))
    assert rollout.acted.any()


def test_distance_joint_at_its_limit(device):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_articulation()
    body = add_rod(builder)
    builder.add_joint_distance(
        -1,
        body,
        child_xform=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()),
        min_distance=-1.0,
        max_distance=0.6,
    )
    builder.joint_q[:] = [0.3, 0.1, -0.45, 0.0, 0.0, 0.0, 1.0]
    builder.joint_qd[:] = [0.5, 0.3, 0.2, 0.2, 0.1, -1.0]
    rollout = Rollout(builder, device, 30)
    rollout.check("state.joint_qd", steps=(0.02, 0.01, 0.005))
    rollout.check("model.joint_distance_upper", steps=(0.001, 0.0005, 0.00025))
    assert rollout.acted.any()


def test_loop_to_a_body_that_the_user_moves(device):
    """A weld pulls an arm after a body without joint; its pose and velocity have gradients, too."""
    builder = two_arms()
    tip = tip_frames(builder)[1]
    place = pose_of(builder, 3) * wp.transform(tip.p, wp.quat_identity())
    hand = builder.add_body(origin=wp.transform(place.p, wp.quat_identity()), key="hand")
    builder.add_constraint_connect(hand, 3, (0.0, 0.0, 0.0), tuple(tip.p), recovery_time=0.1)
    rollout = Rollout(builder, device, 10)
    start = rollout.states[0]
    velocity = start.body_qd.numpy()
    velocity[hand] = (0.1, 0.0, 0.2, 0.3, 0.1, 0.0)
    start.body_qd.assign(velocity)
    errors = {}
    for name in ("body_q", "body_qd"):
        gradient = rollout.gradient(f"state.{name}")[hand]
        array, slopes = rollout.array(f"state.{name}"), []
        base = array.numpy().copy()
        for entry in range(3 if name == "body_q" else 6):
            losses = []
            for sign in (1.0, -1.0):
                moved = base.copy()
                moved[hand, entry] += 0.005 * sign
                array.assign(moved)
                losses.append(rollout.fresh().numpy().astype(np.float64).sum())
            slopes.append((losses[0] - losses[1]) / 0.01)
        array.assign(base)
        errors[name] = np.abs(gradient[: len(slopes)] - slopes).max() / np.abs(slopes).max()
    assert max(errors.values()) < 1.0e-2, errors
    assert rollout.acted.all()


def test_worlds_are_independent(device):
    """Each world has the gradient that it has alone, whatever acts in the others."""

    def build():
        builder = chain(limit_lower=[-3.0, -0.4], limit_upper=[3.0, 0.4])
        builder.joint_friction[:] = [0.1, 0.0]
        return builder

    q = np.array([[0.5, 0.2], [0.2, -0.4], [1.0, 0.0]])
    qd = np.array([[-1.0, 4.0], [1.0, -2.0], [0.0, 0.1]])
    together = Rollout(build(), device, 20, worlds=3)
    together.states[0].joint_q.assign(q.flatten())
    together.states[0].joint_qd.assign(qd.flatten())
    gradients = together.gradient("state.joint_qd").reshape(3, 2)
    for world in range(3):
        alone = Rollout(build(), device, 20)
        alone.states[0].joint_q.assign(q[world])
        alone.states[0].joint_qd.assign(qd[world])
        np.testing.assert_array_equal(alone.gradient("state.joint_qd"), gradients[world])


def test_memory_of_the_solver_is_left_alone(device):
    builder = two_arms()
    builder.add_constraint_connect(1, 3, *(tuple(frame.p) for frame in tip_frames(builder)))
    builder.add_articulation()
    builder.add_joint_revolute(-1, add_rod(builder), axis=(1.0, 0.0, 0.0))
    builder.joint_friction[:] = [0.05] * 13
    builder.joint_qd[-1] = 1.0
    rollout = Rollout(builder, device, 5)
    with wp.Tape() as tape:
        out = rollout.run()
    rows = rollout.solver.constraints.rows
    before = [rows.dof.memory.numpy().copy(), rows.pair.impulse.numpy().copy()]
    states = [state.joint_qd.numpy().copy() for state in rollout.states]
    tape.backward(grads={out: wp.ones_like(out)})
    assert np.abs(before[0]).max() > 0.0
    np.testing.assert_array_equal(rows.dof.memory.numpy(), before[0])
    np.testing.assert_array_equal(rows.pair.impulse.numpy(), before[1])
    for state, velocity in zip(rollout.states, states):
        np.testing.assert_array_equal(state.joint_qd.numpy(), velocity)


def test_captured_gradient_is_that_of_an_eager_pass(device):
    def gradients(captured):
        builder = two_arms()
        builder.add_constraint_connect(1, 3, *(tuple(frame.p) for frame in tip_frames(builder)))
        builder.joint_friction[:] = [0.05] * 12
        rollout = Rollout(builder, device, 4)
        eager = [rollout.gradient(f"state.{name}") for name in ("joint_q", "joint_qd")]
        if not captured:
            return eager
        seed = wp.ones_like(rollout.bodies)
        start = rollout.states[0]
        with wp.ScopedCapture(device=device) as capture:
            tape = wp.Tape()
            start.joint_q.grad.zero_()
            start.joint_qd.grad.zero_()
            for state in rollout.states[1:]:
                for name in ("joint_q", "joint_qd", "body_q", "body_qd"):
                    getattr(state, name).grad.zero_()
            with tape:
                rollout.run()
            tape.backward(grads={rollout.bodies: seed})
        rollout.solver.reset()
        wp.capture_launch(capture.graph)
        rollout.solver.check_gradient()
        return [start.joint_q.grad.numpy(), start.joint_qd.grad.numpy()]

    for eager, replayed in zip(gradients(False), gradients(True)):
        assert np.abs(eager).max() > 0.0
        np.testing.assert_array_equal(eager, replayed)


POINTS = [
    (-1, (0.0, 0.1, 0.3)),
    (0, (0.05, 0.0, -0.3)),
    (1, (0.05, 0.02, -0.2)),
    2.0,
    (1, (0.0, 0.0, -0.4)),
    (-1, (0.4, 0.0, 0.0)),
]
WRAPPED = [
    (-1, (0.3, 0.1, 0.1)),
    newtonsim.TendonWrap(0, (0.0, 0.0, -0.2), 0.12),
    (0, (-0.1, 0.0, -0.4)),
    newtonsim.TendonWrap(1, (0.0, 0.02, -0.1), 0.06, axis=(0.0, 1.0, 0.1), side=(1, (0.1, 0.0, -0.1))),
    (1, (-0.05, 0.1, -0.3)),
    2.0,
    (-1, (0.5, 0.0, -0.3)),
    newtonsim.TendonWrap(0, (0.3, 0.0, -0.2), 0.08, side=(0, (0.3, 0.01, -0.2))),
    (0, (0.2, 0.1, 0.0)),
]
TENDONS = {
    "spring around balls and pillars": lambda b: b.add_tendon_spatial(
        WRAPPED, stiffness=80.0, damping=0.5, spring_length=(0.4, 0.6)
    ),
    "spring along axes": lambda b: b.add_tendon_fixed(
        [(0, 0.7), (1, -0.4)], stiffness=30.0, damping=0.3, spring_length=(-0.5, 0.2)
    ),
    "spring through points": lambda b: b.add_tendon_spatial(
        POINTS, stiffness=80.0, damping=0.5, spring_length=(0.4, 0.6)
    ),
    "drive": lambda b: b.add_tendon_spatial(POINTS, mode=1, target_ke=50.0, target_kd=0.5, action=0.8),
    "drive of the rate": lambda b: b.add_tendon_spatial(POINTS, mode=2, target_ke=3.0, action=0.4),
    "drive at its limit": lambda b: b.add_tendon_spatial(
        POINTS, mode=1, target_ke=500.0, action=2.0, effort_limit=4.0
    ),
    "limit": lambda b: b.add_tendon_spatial(POINTS, limit_upper=1.05, limit_solref=(0.05, 0.8)),
    "limit along axes": lambda b: b.add_tendon_fixed(
        [(0, 0.7), (1, -0.4)], limit_lower=0.5, limit_solref=(0.05, 0.8)
    ),
    "friction": lambda b: b.add_tendon_fixed([(0, 0.7), (1, -0.4)], friction=0.4),
    "armature": lambda b: b.add_tendon_spatial(POINTS, armature=0.5),
    "equality": lambda b: b.add_tendon_equality(
        b.add_tendon_spatial(POINTS), b.add_tendon_fixed([(0, 0.3)]), (0.9, 0.5, 0.2), solref=(0.08, 1.0)
    ),
}


@pytest.mark.parametrize("name", TENDONS)
def test_tendons(name, device):
    builder = chain()
    TENDONS[name](builder)
    builder.joint_q[:] = [0.5, -0.2]
    builder.joint_qd[:] = [-1.0, 2.0]
    rollout = Rollout(builder, device, 12)
    names = ["state.joint_q", "state.joint_qd", "model.body_mass"]
    if name in ("drive", "drive of the rate"):
        names += ["control.tendon_act", "model.tendon_target_ke"]
    if name == "drive":
        names.append("model.tendon_target_kd")
    if name == "drive at its limit":
        names.append("model.tendon_effort_limit")
    if "spring" in name:
        names += ["model.tendon_stiffness", "model.tendon_damping", "model.tendon_spring_upper"]
    if name == "armature":
        names.append("model.tendon_armature")
    rollout.check(*names, steps=(0.02, 0.01, 0.005))
    assert rollout.acted.any()
