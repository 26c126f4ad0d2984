"""Rollouts under torch and JAX: gradients against the recurrence of a point mass."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import diff
from newtonsim.errors import ModelError, NewtonsimError, NotDifferentiableError

WORLDS, STEPS, DT = 3, 12, 0.05
INPUTS = (
    "state.joint_q",
    "state.joint_qd",
    "control.joint_f",
    "model.body_mass",
    "model.gravity_vec",
)


@wp.kernel
def add_square(joint_q: wp.array(dtype=float), losses: wp.array(dtype=float)):
    w = wp.tid()
    wp.atomic_add(losses, w, joint_q[w] * joint_q[w])


@wp.kernel
def add_height_and_spin(
    body_q: wp.array(dtype=wp.transform),
    body_qd: wp.array(dtype=wp.spatial_vector),
    losses: wp.array(dtype=float),
):
    wp.atomic_add(losses, 0, wp.transform_get_translation(body_q[0])[2] + body_qd[0][0])


def square(state: newtonsim.State, losses: wp.array) -> None:
    wp.launch(add_square, WORLDS, [state.joint_q], [losses], device=losses.device)


@pytest.fixture(scope="module")
def rollout(device) -> diff.Rollout:
    """A mass on a vertical rail in each world; loss: its height squared."""
    rail = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = rail.add_body(mass=1.0, I_m=wp.mat33(np.eye(3)))
    rail.add_articulation()
    rail.add_joint_prismatic(-1, body, axis=(0.0, 0.0, 1.0), armature=0.0)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for _ in range(WORLDS):
        builder.add_builder(rail)
    model = builder.finalize(device, requires_grad=True)
    solver = newtonsim.FeatherstoneSolver(model)
    return diff.Rollout(model, solver, STEPS, DT, square, wrt=INPUTS, checkpoint=5)


def values(seed: int = 0) -> list[np.ndarray]:
    """Heights, speeds, forces of all steps, masses and gravity, in another shape than those of the arrays."""
    rng = np.random.default_rng(seed)
    heights, speeds = rng.normal(size=(2, WORLDS, 1))
    forces = rng.normal(size=(STEPS, WORLDS, 1))
    mass = rng.uniform(0.5, 2.0, WORLDS)
    gravity = np.array([[0.1, 0.2, -3.0], [0.0, 0.3, -1.0], [0.2, 0.0, 2.0]])
    return [a.astype(np.float32) for a in (heights, speeds, forces, mass, gravity)]


def heights_after(heights, speeds, forces, mass, gravity):
    """Semi-implicit Euler by hand, in any framework; returns the final heights (worlds,)."""
    x, v = heights.reshape(-1), speeds.reshape(-1)
    for f in forces.reshape(STEPS, WORLDS):
        v = v + DT * (f / mass + gravity[:, 2])
        x = x + DT * v
    return x


def assert_close(found, expected) -> None:
    for name, a, b in zip(INPUTS, found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=1.0e-4, atol=1.0e-5, err_msg=name)


class TestTorch:
    @pytest.fixture(autouse=True)
    def needs_torch(self):
        pytest.importorskip("torch")

    @staticmethod
    def tensors(device, seed: int = 0, requires_grad: bool = True) -> list:
        import torch

        return [torch.tensor(a, device=device, requires_grad=requires_grad) for a in values(seed)]

    def test_gradients_of_losses_and_of_the_final_state(self, rollout, device):
        import torch

        weights = torch.tensor([1.0, -2.0, 0.5], device=device)
        found, expected = self.tensors(device), self.tensors(device)
        losses, joint_q = diff.torch_function(rollout, INPUTS, ("joint_q",))(*found)
        ends = heights_after(*expected)
        np.testing.assert_allclose(joint_q.detach().cpu(), ends.detach().cpu(), atol=1.0e-5)
        np.testing.assert_allclose(losses.detach().cpu(), ends.detach().cpu() ** 2, atol=1.0e-5)
        (weights @ losses + (weights * joint_q).sin().sum()).backward()
        (weights @ ends**2 + (weights * ends).sin().sum()).backward()
        assert_close([t.grad.cpu() for t in found], [t.grad.cpu() for t in expected])

    def test_two_uses_in_one_graph(self, rollout, device):
        """The second call must not disturb what the backward pass of the first one needs."""
        function = diff.torch_function(rollout, INPUTS)
        found, expected = self.tensors(device), self.tensors(device)
        other = self.tensors(device, 1, requires_grad=False)
        (function(*found) * function(found[0], *other[1:])).sum().backward()
        product = heights_after(*expected) ** 2 * heights_after(expected[0], *other[1:]) ** 2
        product.sum().backward()
        assert_close([t.grad.cpu() for t in found], [t.grad.cpu() for t in expected])

    def test_some_inputs(self, rollout, device):
        """What is not given comes from the state and the controls of the function."""
        import torch

        heights, speeds, forces, _, _ = values(2)
        state = rollout.model.state()
        state.joint_q.assign(heights.reshape(-1))
        function = diff.torch_function(
            rollout, ["state.joint_qd"], state=state, controls={"control.joint_f": forces.reshape(STEPS, -1)}
        )
        mass, gravity = np.full(WORLDS, 2.0, np.float32), np.float32([[0.0, 0.0, -1.0]] * WORLDS)
        rollout.model.body_mass.assign(mass)
        rollout.model.gravity_vec.assign(gravity)
        found = torch.tensor(speeds, device=device, requires_grad=True)
        function(found).sum().backward()
        expected = torch.tensor(speeds, requires_grad=True)
        constants = [torch.tensor(a) for a in (forces, mass, gravity)]
        (heights_after(torch.tensor(heights), expected, *constants) ** 2).sum().backward()
        np.testing.assert_allclose(found.grad.cpu(), expected.grad, rtol=1.0e-4)

    def test_forces_that_are_the_same_in_all_steps(self, rollout, device):
        import torch

        function = diff.torch_function(rollout, INPUTS)
        found, expected = self.tensors(device), self.tensors(device)
        found[2] = torch.tensor([0.3, -0.4, 0.5], device=device, requires_grad=True)
        expected[2] = found[2].detach().clone().requires_grad_()
        function(*found).sum().backward()
        (heights_after(*expected[:2], expected[2].repeat(STEPS, 1), *expected[3:]) ** 2).sum().backward()
        assert_close([t.grad.cpu() for t in found], [t.grad.cpu() for t in expected])

    def test_inverse_masses_follow(self, device):
        """A solver in maximal coordinates reads inverses: a tensor of masses must reach the motion, too."""
        import torch

        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        body = builder.add_body(mass=1.0, I_m=wp.mat33(np.eye(3)))
        builder.add_articulation()
        builder.add_joint_free(body)
        model = builder.finalize(device, requires_grad=True)
        state = model.state()
        state.body_f.assign([[0.3, 0.0, 0.0, 0.0, 0.0, 2.0]])

        def loss(state, losses):
            wp.launch(add_height_and_spin, 1, [state.body_q, state.body_qd], [losses], device=device)

        wrt = ("model.body_mass", "model.body_inertia")
        solver = newtonsim.SemiImplicitSolver(model, angular_damping=0.0)
        rollout = diff.Rollout(model, solver, STEPS, DT, loss, wrt=wrt)
        mass = torch.tensor([4.0], device=device, requires_grad=True)
        inertia = torch.tensor(0.5 * np.eye(3, dtype=np.float32)[None], device=device, requires_grad=True)
        found = diff.torch_function(rollout, state=state)(mass, inertia)
        found.backward()
        height = DT**2 * STEPS * (STEPS + 1) / 2.0 * 2.0 / 4.0
        spin = DT * STEPS * 0.3 / 0.5
        assert found.item() == pytest.approx(height + spin, rel=1.0e-4)
        assert mass.grad.item() == pytest.approx(-height / 4.0, rel=1.0e-3)
        assert inertia.grad[0, 0, 0].item() == pytest.approx(-spin / 0.5, rel=1.0e-3)

    def test_no_grad_and_inputs_without_gradients(self, rollout, device):
        import torch

        function, tensors = diff.torch_function(rollout, INPUTS), self.tensors(device)
        with torch.no_grad():
            losses = function(*tensors)
        assert not losses.requires_grad
        plain = [t.detach() for t in tensors]
        assert not function(*plain).requires_grad
        plain[1].requires_grad_()
        function(*plain).sum().backward()
        assert plain[1].grad is not None
        assert all(t.grad is None for k, t in enumerate(plain) if k != 1)

    def test_memory_is_shared_with_rollouts_and_not_between_calls(self, rollout, device, monkeypatch):
        """Arrays reach the rollout at the address of the tensors; results do not change later."""
        function = diff.torch_function(rollout, INPUTS, ("joint_q",))
        tensors = self.tensors(device)
        seen, evaluate = [], rollout.evaluate
        monkeypatch.setattr(rollout, "evaluate", lambda *given: seen.append(given) or evaluate(*given))
        first = function(*tensors)
        before = [t.detach().clone() for t in first]
        second = function(*self.tensors(device, 1))
        assert all((a == b).all() for a, b in zip(first, before, strict=True))
        assert not any(a.data_ptr() == b.data_ptr() for a, b in zip(first, second, strict=True))
        state, controls = seen[0]
        addresses = [a.ptr for a in (state.joint_q, state.joint_qd, controls["joint_f"])]
        assert addresses == [t.data_ptr() for t in tensors[:3]]

    def test_tensors_that_are_not_contiguous(self, rollout, device):
        import torch

        function, tensors = diff.torch_function(rollout, INPUTS), self.tensors(device)
        wide = torch.stack([tensors[0].detach()] * 2, dim=2)[..., 1].requires_grad_()
        assert not wide.is_contiguous()
        gradient = torch.autograd.grad(function(wide, *tensors[1:]).sum(), wide)[0]
        expected = torch.autograd.grad(function(*tensors).sum(), tensors[0])[0]
        assert torch.equal(gradient, expected)

    def test_change_between_forward_and_backward_is_noticed(self, rollout, device):
        import torch

        tensors = self.tensors(device)
        losses = diff.torch_function(rollout, INPUTS)(*tensors)
        with torch.no_grad():
            tensors[0] += 1.0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            losses.sum().backward()

    def test_second_derivatives_are_refused(self, rollout, device):
        """Beside a term that has them, those of the rollout would be zero in silence."""
        import torch

        tensors = self.tensors(device)
        losses = diff.torch_function(rollout, INPUTS)(*tensors)
        (gradient,) = torch.autograd.grad(losses.sum(), tensors[0], create_graph=True)
        with pytest.raises(NotDifferentiableError, match="second derivatives"):
            (gradient.sum() + tensors[0].square().sum()).backward()

    def test_bad_tensors_are_refused_by_name(self, rollout, device):
        function, good = diff.torch_function(rollout, INPUTS), self.tensors(device)
        with pytest.raises(TypeError, match=r"expected 5 tensors \(state.joint_q, .*got 4"):
            function(*good[:4])
        bad = [
            (0, good[0].double(), ModelError, r"state.joint_q: .*float32, got torch.float64"),
            (1, good[1].to("meta"), ModelError, r"state.joint_qd: .*got one on meta"),
            (2, good[2][:5], ModelError, r"control.joint_f: .*12 steps, got \(5, 3, 1\)"),
            (4, good[4][:2], ModelError, r"model.gravity_vec: expected shape \(3, 3\)"),
            (3, good[3].tolist(), TypeError, "model.body_mass: expected a torch tensor, got list"),
        ]
        for index, tensor, error, match in bad:
            with pytest.raises(error, match=match):
                function(*good[:index], tensor, *good[index + 1 :])

    def test_bad_names_are_refused(self, rollout):
        with pytest.raises(NewtonsimError, match=r"inputs: .*no gradient with respect to 'state.body_q'"):
            diff.torch_function(rollout, ["state.body_q"])
        with pytest.raises(NewtonsimError, match="distinct names"):
            diff.torch_function(rollout, ["state.joint_q", "state.joint_q"])
        with pytest.raises(NewtonsimError, match="distinct names"):
            diff.torch_function(rollout, [])
        with pytest.raises(NewtonsimError, match=r"outputs: .*no 'particle_q'"):
            diff.torch_function(rollout, outputs=["particle_q"])


def jax_devices() -> list[str]:
    """Devices that both Warp and JAX have."""
    if not wp.is_cuda_available() or importlib.util.find_spec("jax") is None:
        return ["cpu"]
    import jax

    return ["cpu", "cuda:0"] if jax.default_backend() == "gpu" else ["cpu"]


class TestJax:
    @pytest.fixture(scope="module", params=jax_devices())
    @classmethod
    def device(cls, request: pytest.FixtureRequest) -> str:
        return request.param

    @pytest.fixture(autouse=True)
    def needs_jax(self):
        pytest.importorskip("jax")

    @pytest.mark.parametrize("jit", [False, True])
    def test_gradients_of_losses_and_of_the_final_state(self, rollout, jit):
        import jax
        import jax.numpy as jnp

        weights = jnp.array([1.0, -2.0, 0.5])
        function = diff.jax_function(rollout, INPUTS, ("joint_q",))

        def ours(*arrays):
            losses, joint_q = function(*arrays)
            return weights @ losses + jnp.sin(weights * joint_q).sum()

        def truth(*arrays):
            ends = heights_after(*arrays)
            return weights @ ends**2 + jnp.sin(weights * ends).sum()

        argnums = tuple(range(len(INPUTS)))
        value_and_grad = jax.value_and_grad(ours, argnums)
        for seed in (0, 1):
            arrays = values(seed)
            value, found = (jax.jit(value_and_grad) if jit else value_and_grad)(*arrays)
            expected_value, expected = jax.value_and_grad(truth, argnums)(*arrays)
            assert float(value) == pytest.approx(float(expected_value), rel=1.0e-4)
            assert_close(found, expected)

    def test_two_uses_in_one_graph(self, rollout):
        import jax

        function, arrays, other = diff.jax_function(rollout, INPUTS), values(0), values(1)

        def product(f, *given):
            return (f(*given) * f(given[0], *other[1:])).sum()

        argnums = tuple(range(1, 1 + len(INPUTS)))
        found = jax.jit(jax.grad(product, argnums), static_argnums=0)(function, *arrays)
        expected = jax.grad(product, argnums)(lambda *a: heights_after(*a) ** 2, *arrays)
        assert_close(found, expected)

    def test_vmap_runs_one_after_the_other(self, rollout):
        import jax

        function, sets = diff.jax_function(rollout, INPUTS), [values(seed) for seed in range(3)]
        batch = [np.stack(arrays) for arrays in zip(*sets, strict=True)]
        losses = jax.vmap(function)(*batch)
        for arrays, row in zip(sets, losses, strict=True):
            np.testing.assert_allclose(row, heights_after(*arrays) ** 2, atol=1.0e-5)

    def test_second_derivatives_and_forward_mode_are_refused(self, rollout):
        import jax

        function, arrays = diff.jax_function(rollout, INPUTS), values()

        def slope(heights):
            return jax.grad(lambda h: function(h, *arrays[1:]).sum() + (h**3).sum())(heights).sum()

        with pytest.raises(ValueError, match="cannot be differentiated"):
            jax.grad(slope)(arrays[0])
        with pytest.raises(TypeError, match="custom_vjp"):
            jax.jvp(lambda h: function(h, *arrays[1:]), (arrays[0],), (arrays[0],))

    def test_bad_arrays_are_refused_by_name(self, rollout):
        function, good = diff.jax_function(rollout, INPUTS), values()
        with pytest.raises(TypeError, match="expected 5 tensors"):
            function(*good[:3])
        with pytest.raises(ModelError, match=r"state.joint_q: expected an array of float32, got int32"):
            function(good[0].astype(np.int32), *good[1:])
        with pytest.raises(ModelError, match=r"model.body_mass: expected shape"):
            function(*good[:3], good[3][:2], good[4])

    def test_errors_of_the_rollout_arrive(self, rollout):
        """An exception in the middle of XLA must neither hang nor pass as a result."""
        import jax

        def broken(state, losses):
            raise ValueError("the loss is broken")

        model = rollout.model
        bad = diff.Rollout(model, rollout.solver, 2, DT, broken, wrt=INPUTS[:1])
        with pytest.raises(jax.errors.JaxRuntimeError, match="the loss is broken"):
            diff.jax_function(bad)(values()[0]).block_until_ready()


@pytest.mark.parametrize("package", ["torch", "jax"])
def test_a_missing_package_is_named_with_its_extra(rollout, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'newtonsim\[{package}\]'"):
        getattr(diff, f"{package}_function")(rollout)


def test_nothing_is_imported_before_it_is_asked_for():
    code = "import sys, newtonsim.diff as diff; diff.torch_function; print({'torch', 'jax'} & {*sys.modules})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "set()", result.stderr
