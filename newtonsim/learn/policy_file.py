"""Policies as ONNX files, which run without torch and newtonsim."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from rsl_rl.models import MLPModel
from torch import nn

from newtonsim.errors import NewtonsimError
from newtonsim.learn.models import PolicySpaces
from newtonsim.regular_files import open_regular

_KEY = "newtonsim"
_EPSILON = 0.01
"""What rsl-rl's normalisation adds to a standard deviation before it divides by it."""


class _Exported(nn.Module):
    """Maps an environment's observations to its actions."""

    def __init__(self, actor: MLPModel, policy: PolicySpaces):
        super().__init__()
        self.network = actor.as_onnx(verbose=False)
        self.policy = policy

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return actions (n, ...) without noise."""
        seen = self.policy.prepared(obs)
        # the network for pictures expects numbers beside them, here none
        inputs = (seen.flatten(1)[:, :0], seen) if self.policy.is_picture else (seen,)
        return self.policy.to_env(self.network(*inputs))


def export_policy(
    path: str | os.PathLike, actor: MLPModel, policy: PolicySpaces, about: dict[str, Any]
) -> None:
    """Write a policy: observations "obs" (n, ...) in, actions "actions" (n, ...) of the environment out.

    The file includes normalisation and scaling, and no noise.

    Args:
        path: The file.
        actor: Its network.
        policy: Its observation and action spaces.
        about: Further data to store, as JSON: at least "name" and "options" of the environment.
    """
    dtype = torch.from_numpy(np.zeros(0, policy.dtype)).dtype
    example = torch.zeros((2, *policy.shape), dtype=dtype)
    write_module(path, _Exported(actor, policy).cpu().eval(), example, about)


def write_module(
    path: str | os.PathLike, module: nn.Module, example: torch.Tensor, about: dict[str, Any]
) -> None:
    """Write a module as the file of a policy.

    Args:
        path: The file.
        module: Maps observations (n, ...) to actions (n, ...) of the environment, on the CPU.
        example: Observations of some worlds.
        about: Data to store, see `export_policy`.
    """
    import onnx

    with warnings.catch_warnings(), _quiet(logging.getLogger("torch.onnx")):
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            module,
            (example,),
            input_names=["obs"],
            output_names=["actions"],
            dynamic_shapes=({0: torch.export.Dim("worlds")},),
            dynamo=True,
            verbose=False,
        )
    model = program.model_proto
    onnx.helper.set_model_props(model, {_KEY: json.dumps(about)})
    _write(path, model.SerializeToString())


def weights_of(path: str | os.PathLike) -> dict[str, torch.Tensor]:
    """Return the weights and the normalisation of the network in a policy's file, by their names in rsl-rl.

    Args:
        path: The file, as `export_policy` writes it, for observations that are no pictures.

    Raises:
        NewtonsimError: It holds other networks.
    """
    import onnx

    graph = onnx.load(os.fspath(path)).graph
    arrays = {a.name: torch.from_numpy(onnx.numpy_helper.to_array(a).copy()) for a in graph.initializer}
    inside = "network."
    found = {name.removeprefix(inside): a for name, a in arrays.items() if name.startswith(inside + "mlp.")}
    if not found:
        raise NewtonsimError(f"{os.fspath(path)}: expected the network of a policy without pictures")
    mean = arrays.get(inside + "obs_normalizer._mean")
    if mean is not None:
        divisor = next(node.input[1] for node in graph.node if node.op_type == "Div")
        deviation = arrays[divisor] - _EPSILON
        found |= {"obs_normalizer._mean": mean, "obs_normalizer._std": deviation}
        found["obs_normalizer._var"] = deviation**2
    return found


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Context in which a logger only reports errors; torch's exporter warns of features not used here."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _write(path: str | os.PathLike, data: bytes) -> None:
    """Write a file atomically, so that nobody reads half of it."""
    part = f"{os.fspath(path)}.part"
    with open(part, "wb") as file:
        file.write(data)
    os.replace(part, path)


class PolicyFile:
    """A policy from an ONNX file; call it with observations.

    Args:
        path: The file, as `export_policy` writes it.

    Attributes:
        about: The data stored with it.

    Raises:
        NewtonsimError: The file was not written by us, or onnxruntime is not installed.
        OSError: There is no such file.
    """

    def __init__(self, path: str | os.PathLike):
        try:
            import onnxruntime
        except ImportError as error:
            raise NewtonsimError("policies need onnxruntime: pip install 'newtonsim[learn]'") from error
        path = os.fspath(path)
        with open_regular(path) as file:
            data = file.read()
        wrong = onnxruntime.capi.onnxruntime_pybind11_state
        try:
            self._session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        except (wrong.InvalidProtobuf, wrong.InvalidGraph, wrong.Fail, wrong.InvalidArgument) as error:
            raise NewtonsimError(
                f"{path}: expected an ONNX file that is complete in itself: {error}"
            ) from error
        kept = self._session.get_modelmeta().custom_metadata_map
        if _KEY not in kept:
            raise NewtonsimError(
                f"{path}: an ONNX file, but not one of `newtonsim train` or `learn.save_policy`, which say "
                "what environment it is for"
            )
        self.about: dict[str, Any] = json.loads(kept[_KEY])

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Return actions for observations (n, ...).

        Raises:
            NewtonsimError: Observations have another size than those of the policy.
        """
        wanted = self._session.get_inputs()[0].shape[1:]
        if list(observations.shape[1:]) != wanted:
            given = tuple(observations.shape[1:])
            raise NewtonsimError(
                f"the policy takes observations of shape {tuple(wanted)}, got {given}; it was trained in "
                f"{(self.about.get('name') or self.about.get('problem'))!r}"
            )
        return self._session.run(None, {"obs": observations})[0]
