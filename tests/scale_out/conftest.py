"""One small Ray cluster for all tests of this folder."""

import pytest
from rooms import ROOT


@pytest.fixture(scope="session")
def cluster():
    """Ray on this machine; its two GPUs are there by name only, for workers that use none."""
    import ray

    ray.init(
        num_cpus=2,
        num_gpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(ROOT / "tests")}},
    )
    yield
    ray.shutdown()
