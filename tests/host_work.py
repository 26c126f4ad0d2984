"""Makes whatever would launch, read or wait on the host fail, as a step on a GPU must do without."""

import pytest
import torch
import warp as wp

from newtonsim import envs

_WARP = ("synchronize", "synchronize_device", "synchronize_stream", "copy", "launch", "zeros")
_ARRAY = ("numpy", "list", "assign", "zero_", "fill_")
_TENSOR = ("item", "numpy", "cpu", "tolist", "nonzero", "__bool__", "__float__", "__int__")


def forbid_host_work(monkeypatch: pytest.MonkeyPatch, env: envs.BatchedEnv) -> None:
    """Let steps of an environment, which has made one already, do nothing but replay their recording."""

    def forbidden(*args, **kwargs):
        raise AssertionError("the host does work or waits for the device")

    # as on a GPU
    env._exchange.looks_at_values = False
    monkeypatch.setattr(env.solver, "report", lambda: None)
    for owner, names in ((wp, _WARP), (wp.array, _ARRAY), (torch.Tensor, _TENSOR)):
        for name in names:
            monkeypatch.setattr(owner, name, forbidden)
