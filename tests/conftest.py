"""Fixtures shared by all tests."""

import pytest
import warp as wp


def devices() -> list[str]:
    """CPU always, the first CUDA device where there is one."""
    wp.config.log_level = wp.LOG_ERROR
    return ["cpu", "cuda:0"] if wp.is_cuda_available() else ["cpu"]


@pytest.fixture(scope="session", params=devices())
def device(request: pytest.FixtureRequest) -> str:
    """Name of the device that a test runs on."""
    return request.param
