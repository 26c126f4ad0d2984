"""One small Ray cluster for all tests of this folder."""

import os

import pytest
from rooms import ROOT


@pytest.fixture(scope="session")
def cluster():
    """Ray on this machine; its two GPUs are there by name only, for workers that use none.

    Workers find modules of the tests, beside what the environment already names.
    """
    import ray

    path = os.pathsep.join(filter(None, (str(ROOT / "tests"), os.environ.get("PYTHONPATH"))))
    ray.init(
        address="local",
        num_cpus=2,
        num_gpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )
    yield
    ray.shutdown()
