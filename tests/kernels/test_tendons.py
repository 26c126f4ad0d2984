"""Forces of tendons and impedances of rows by reference, against NumPy in double precision."""

import numpy as np
import warp as wp
from kernel_calls import DeviceFunctions

from newtonsim.kernels.tendons.forces import TendonDrive, drive_force
from newtonsim.kernels.views.references import impedance

wp.set_module_options({"enable_backward": False})

call = DeviceFunctions(__name__, drive_force, impedance)
COUNT = 200


def test_drives_of_every_mode(device):
    rng = np.random.default_rng(0)
    act, length, rate, ke, kd = rng.uniform(-2.0, 2.0, (5, COUNT))
    ke, kd = np.abs(ke), np.abs(kd)
    mode, most = np.arange(COUNT) % 3, rng.uniform(0.5, 4.0, COUNT)
    drive = TendonDrive()
    drive.muscle = wp.zeros((COUNT, 13), dtype=float, device=device)
    for name, values, dtype in (
        ("mode", mode, int),
        ("target_ke", ke, float),
        ("target_kd", kd, float),
        ("effort_limit", most, float),
    ):
        setattr(drive, name, wp.array(values, dtype=dtype, device=device))
    found = call(device, drive_force, np.arange(COUNT), act, length, rate, drive)
    wanted = np.select([mode == 0, mode == 1], [act, ke * (act - length) - kd * rate], ke * (act - rate))
    np.testing.assert_allclose(found, np.clip(wanted, -most, most), rtol=1.0e-5, atol=1.0e-6)


def test_impedance_is_the_sigmoid_of_the_documentation(device):
    """d goes from d0 to d1; half way up at the midpoint; y = a x^p up to there, 1 - b (1 - x)^p behind."""
    rng = np.random.default_rng(1)
    r = rng.uniform(-0.3, 0.3, COUNT)
    first, last, middle = rng.uniform(0.1, 0.95, (3, COUNT))
    width, power = rng.uniform(0.1, 0.4, COUNT), rng.uniform(1.0, 4.0, COUNT)
    x = np.minimum(np.abs(r) / width, 1.0)
    below = x**power / middle ** (power - 1.0)
    above = 1.0 - (1.0 - x) ** power / (1.0 - middle) ** (power - 1.0)
    wanted = first + np.where(x > middle, above, below) * (last - first)
    parameters = {
        "given": np.ones(COUNT),
        "ref": np.ones((COUNT, 2)),
        "ends": np.stack([first, last], axis=1),
    }
    parameters |= {"width": width, "middle": middle, "power": power}
    np.testing.assert_allclose(call(device, impedance, r, parameters), wanted, rtol=1.0e-5)
