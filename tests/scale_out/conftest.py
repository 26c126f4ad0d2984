"""One small Ray cluster for all tests of this folder."""

import pytest
from rooms import ROOT


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Ray on this machine; its two GPUs are there by name only, for workers that use none.

    Workers find modules of the tests, and keep bytecode for each other: many start, and torch is large.
    """
    import ray

    folders = {"PYTHONPATH": ROOT / "tests", "PYTHONPYCACHEPREFIX": tmp_path_factory.mktemp("bytecode")}
    ray.init(
        address="local",
        num_cpus=2,
        num_gpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": {**{k: str(v) for k, v in folders.items()}, "PYTHONDONTWRITEBYTECODE": ""}},
    )
    yield
    ray.shutdown()
