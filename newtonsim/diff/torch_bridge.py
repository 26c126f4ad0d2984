"""Rollouts as functions of torch tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import warp as wp

from newtonsim.diff.bridge import Bridge, Slot
from newtonsim.errors import ModelError, NotDifferentiableError
from newtonsim.runtime.devices import in_order_with_torch

if TYPE_CHECKING:
    import torch

    from newtonsim.diff.inputs import Controls
    from newtonsim.diff.rollout import Rollout
    from newtonsim.scene.state import State


def torch_function(
    rollout: Rollout,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = (),
    state: State | None = None,
    controls: Controls = None,
) -> Callable[..., Any]:
    """Return a differentiable torch function that runs a rollout.

    It takes a tensor for each input and returns the losses, shape (world_count,); with outputs a tuple of
    the losses and the final state's arrays. All of them may have incoming gradients. Tensors are float32, on
    the device of the model, and of the shape of the array (`transform` and the like as a last axis of 7
    floats, ...) or another shape with as many floats, such as (world_count, n); those of controls may have a
    first axis of length `steps`. Rollouts read contiguous tensors in place, torch copies others; arrays of
    the model are copied into it and remain there.

    A forward call keeps only its inputs, so that functions may be called several times before `backward`,
    which runs the rollout again and then backward. Second derivatives are not available. On a GPU, the work
    is ordered by torch's current stream.

    Args:
        rollout: The rollout.
        inputs: Names of the arrays that the tensors replace, a subset of the rollout's `wrt`; None for all.
        outputs: Names of arrays of the final state to return, such as "joint_q".
        state: State that provides all other arrays of the initial state, read in every run; None for the
            model's.
        controls: Controls that provide all other inputs, as in a call of the rollout.

    Raises:
        ImportError: torch is not installed.
        NewtonsimError: A name is unknown, or the rollout has no gradient with respect to it.
    """
    _import_torch()
    function = _autograd_function()
    bridge = Bridge(rollout, inputs, outputs, state, controls)

    def run(*tensors: torch.Tensor) -> Any:
        bridge.check_count(len(tensors))
        for slot, tensor in zip(bridge.inputs, tensors):
            _check(slot, tensor, bridge.device)
        results = function.apply(bridge, *tensors)
        return results if outputs else results[0]

    return run


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("torch is not installed: pip install 'newtonsim[torch]'") from error
    return torch


def _check(slot: Slot, tensor: torch.Tensor, device: wp.Device) -> None:
    """Raise an error unless a tensor can replace an array."""
    torch = _import_torch()
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{slot.name}: expected a torch tensor, got {type(tensor).__name__}")
    if tensor.dtype != torch.float32:
        raise ModelError(f"{slot.name}: expected a tensor of float32, got {tensor.dtype}")
    if str(tensor.device) != wp.device_to_torch(device):
        raise ModelError(f"{slot.name}: expected a tensor on {device}, got one on {tensor.device}")
    slot.check_shape(tensor.shape)


def _floats(tensor: torch.Tensor) -> wp.array:
    """The memory of a tensor as a flat array; a copy only if it is not contiguous."""
    return wp.from_torch(tensor.detach().contiguous().view(-1), dtype=wp.float32, requires_grad=False)


@functools.cache
def _autograd_function() -> Any:
    """Return the function that autograd calls, created once torch is imported."""
    torch = _import_torch()

    class RolloutFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, bridge: Bridge, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            ctx.bridge = bridge
            ctx.save_for_backward(*tensors)
            with in_order_with_torch(bridge.device):
                results = bridge.results(bridge.evaluate([_floats(tensor) for tensor in tensors]))
            losses, *outputs = (wp.to_torch(array, requires_grad=False) for array in results)
            return losses, *(output.view(slot.shape) for slot, output in zip(bridge.outputs, outputs))

        @staticmethod
        def backward(ctx: Any, *seeds: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            needed = ctx.needs_input_grad[1:]
            return None, *PullBackFunction.apply(ctx.bridge, needed, *ctx.saved_tensors, *seeds)

    # a function of its own, so that second derivatives are an error rather than zero
    class PullBackFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, bridge: Bridge, needed: tuple[bool, ...], *tensors: torch.Tensor) -> tuple:
            count = len(bridge.inputs)
            arrays = [_floats(tensor) for tensor in tensors]
            with in_order_with_torch(bridge.device):
                _, found = bridge.pull_back(arrays[:count], arrays[count], arrays[count + 1 :])
            gradients = [wp.to_torch(array, requires_grad=False) for array in found]
            shaped = zip(needed, gradients, tensors)
            return tuple(gradient.view(tensor.shape) if need else None for need, gradient, tensor in shaped)

        @staticmethod
        def backward(ctx: Any, *seeds: torch.Tensor) -> None:
            raise NotDifferentiableError("torch_function: a rollout has no second derivatives")

    return RolloutFunction
