"""The same calls in the real module and in ours."""

import numpy as np
import pybullet
import pybullet_data

import newtonsim.pybullet_compat as compat

DATA = pybullet_data.getDataPath()


class Both:
    """Two worlds, one in each module; attributes are functions that return both answers."""

    def __init__(self, gravity: float = -9.81):
        self.ids = (pybullet.connect(pybullet.DIRECT), compat.connect(compat.DIRECT))
        self.setAdditionalSearchPath(DATA)
        self.setGravity(0.0, 0.0, gravity)

    def __getattr__(self, name: str):
        def call(*args, **keywords):
            return tuple(
                getattr(module, name)(*args, **keywords, physicsClientId=client)
                for module, client in zip((pybullet, compat), self.ids)
            )

        return call

    def load(self, *args, **keywords) -> int:
        """Load a URDF file; both ids are the same."""
        real, ours = self.loadURDF(*args, **keywords)
        assert real == ours
        return real

    def same(self, name: str, *args, tolerance: float = 1.0e-6, **keywords):
        """Call, and compare all numbers, names and lengths; return the real answer."""
        real, ours = getattr(self, name)(*args, **keywords)
        compare(real, ours, tolerance, f"{name}{args}", signs=not name.endswith("ShapeData"))
        return real

    def step(self, count: int = 1) -> None:
        """Make steps."""
        for _ in range(count):
            self.stepSimulation()

    def close(self) -> None:
        """Disconnect."""
        self.disconnect()


def compare(real: object, ours: object, tolerance: float, where: str, signs: bool = False) -> None:
    """Compare answers item by item; quaternions up to their sign unless that is asked for."""
    if isinstance(real, (tuple, list)):
        assert len(real) == len(ours), where
        quaternion = not signs and len(real) == 4 and all(isinstance(x, float) for x in real)
        if quaternion and np.dot(real, ours) < 0.0:
            ours = type(ours)(-value for value in ours)
        for i, (a, b) in enumerate(zip(real, ours)):
            compare(a, b, tolerance, f"{where}[{i}]", signs)
    elif isinstance(real, float):
        assert isinstance(ours, float), where
        assert abs(real - ours) <= tolerance * max(1.0, abs(real)), f"{where}: {ours} is not {real}"
    elif isinstance(real, dict):
        assert set(real) == set(ours), where
        for key, value in real.items():
            compare(value, ours[key], tolerance, f"{where}[{key!r}]", signs)
    else:
        assert real == ours, where
        assert type(real) is type(ours), where


def base_height(answers) -> np.ndarray:
    """Heights of both bases from the answers of getBasePositionAndOrientation."""
    return np.array([answer[0][2] for answer in answers])
