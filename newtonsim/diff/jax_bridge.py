"""Rollouts as functions of JAX arrays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import warp as wp

from newtonsim.diff.bridge import Bridge
from newtonsim.errors import ModelError

if TYPE_CHECKING:
    from newtonsim.diff.inputs import Controls
    from newtonsim.diff.rollout import Rollout
    from newtonsim.scene.state import State


def jax_function(
    rollout: Rollout,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = (),
    state: State | None = None,
    controls: Controls = None,
) -> Callable[..., Any]:
    """Return a JAX function with a `custom_vjp` that runs a rollout; it may be used under `jit` and `grad`.

    Arguments, results and shapes are those of `torch_function`, with JAX arrays of float32. XLA calls the
    rollout through its foreign function interface (Warp's `jax_callable`), on the CPU and on a GPU: it reads
    the memory of the arguments where it is, and copies the results into XLA's. `jax.pure_callback` is not
    used, as converting its arguments can deadlock on few cores (jax issue 24255).

    A call runs forward only; its vector-Jacobian product runs the rollout again and then backward. `vmap`
    runs calls one after the other; use worlds for batches. Forward mode and second derivatives are not
    available. JAX calls from its own thread and may omit or merge calls with equal arguments: do not change
    the model or `state` while results are pending (`jax.block_until_ready`), and launch nothing with Warp
    until the first call has returned, since it captures graphs. An exception of a rollout arrives as a
    JaxRuntimeError with the same text. The function lives, with its rollout, as long as the process.

    Args:
        rollout: The rollout.
        inputs: Names of the arrays that the arguments replace, a subset of the rollout's `wrt`; None for all.
        outputs: Names of arrays of the final state to return, such as "joint_q".
        state: State that provides all other arrays of the initial state, read in every run; None for the
            model's.
        controls: Controls that provide all other inputs, as in a call of the rollout.

    Raises:
        ImportError: JAX is not installed.
        NewtonsimError: A name is unknown, or the rollout has no gradient with respect to it.
    """
    jax = _import_jax()
    bridge = Bridge(rollout, inputs, outputs, state, controls)
    forward, backward = _Forward(bridge), _Backward(bridge)

    @jax.custom_vjp
    def run(*arrays: Any) -> tuple[Any, ...]:
        losses, *ends = forward(*arrays)
        return losses, *(end.reshape(slot.shape) for slot, end in zip(bridge.outputs, ends))

    run.defvjp(lambda *arrays: (run(*arrays), arrays), lambda arrays, seeds: backward(arrays, seeds))

    def checked(*arrays: Any) -> Any:
        bridge.check_count(len(arrays))
        arrays = tuple(jax.numpy.asarray(array) for array in arrays)
        for slot, array in zip(bridge.inputs, arrays):
            if array.dtype != jax.numpy.float32:
                raise ModelError(f"{slot.name}: expected an array of float32, got {array.dtype}")
            slot.check_shape(array.shape)
        results = run(*arrays)
        return results if outputs else results[0]

    return checked


class _Forward:
    """Losses and outputs of flat arguments, called by XLA."""

    def __init__(self, bridge: Bridge):
        self.bridge = bridge
        count = len(bridge.inputs)

        def evaluate(*arrays: wp.array) -> None:
            results = bridge.results(bridge.evaluate(arrays[:count]))
            for target, source in zip(arrays[count:], results):
                wp.copy(target, source)

        self.names = [f"result{i}" for i in range(1 + len(bridge.outputs))]
        arguments = [f"input{i}" for i in range(count)]
        self._call = _jax_callable(evaluate, arguments, self.names)
        sizes = [bridge.rollout.model.world_count, *(math.prod(slot.shape) for slot in bridge.outputs)]
        self._sizes = dict(zip(self.names, sizes))

    def __call__(self, *arrays: Any) -> list[Any]:
        return self._call(*(array.reshape(-1) for array in arrays), output_dims=self._sizes)


class _Backward:
    """Gradients of flat arguments, called by XLA."""

    def __init__(self, bridge: Bridge):
        self.bridge = bridge
        count, seeds = len(bridge.inputs), 1 + len(bridge.outputs)

        def pull_back(*arrays: wp.array) -> None:
            losses, *outputs = arrays[count : count + seeds]
            _, found = bridge.pull_back(arrays[:count], losses, outputs)
            for target, source in zip(arrays[count + seeds :], found):
                wp.copy(target, source)

        self.names = [f"gradient{i}" for i in range(count)]
        arguments = [f"input{i}" for i in range(count)] + [f"seed{i}" for i in range(seeds)]
        self._call = _jax_callable(pull_back, arguments, self.names)

    def __call__(self, arrays: Sequence[Any], seeds: Sequence[Any]) -> tuple[Any, ...]:
        sizes = {name: array.size for name, array in zip(self.names, arrays)}
        flat = [array.reshape(-1) for array in (*arrays, *seeds)]
        gradients = self._call(*flat, output_dims=sizes)
        return tuple(gradient.reshape(array.shape) for gradient, array in zip(gradients, arrays))


def _import_jax() -> Any:
    try:
        import jax
    except ImportError as error:
        raise ImportError("jax is not installed: pip install 'newtonsim[jax]'") from error
    return jax


def _jax_callable(function: Callable[..., None], arguments: list[str], results: list[str]) -> Any:
    """Register a function of flat float arrays with XLA; Warp reads from its signature what they are."""
    names = [*arguments, *results]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    function.__annotations__ = {name: wp.array(dtype=wp.float32) for name in names}
    # JAX must not capture what replays graphs of its own
    mode = wp.JaxCallableGraphMode.NONE
    return wp.jax_callable(function, len(results), graph_mode=mode, vmap_method="sequential")
