"""A quadruped with eight hinges as URDF, of any size; geometrically similar ones have equal densities."""

import numpy as np

HIP, KNEE = 0.6, -1.2
"""Angles at which its feet are below its hips [rad]."""
LENGTH, RADIUS = 0.16, 0.018
"""Length of thigh and shank, radius of a foot, at scale 1 [m]."""
MASSES = {"trunk": 4.0, "upper": 0.4, "lower": 0.15}
"""At scale 1 [kg]."""


def _link(name: str, mass: float, com: np.ndarray, size: np.ndarray, shape: str) -> str:
    x, y, z = mass / 12.0 * ((size**2).sum() - size**2)
    place = " ".join(map(str, com))
    inertia = f'<inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/>'
    return (
        f'<link name="{name}"><inertial><origin xyz="{place}"/><mass value="{mass}"/>{inertia}</inertial>'
        f"<collision>{shape}</collision></link>"
    )


def _box(place: np.ndarray, size: np.ndarray) -> str:
    text = " ".join(map(str, place)), " ".join(map(str, size))
    return f'<origin xyz="{text[0]}"/><geometry><box size="{text[1]}"/></geometry>'


def quadruped(scale: float = 1.0) -> str:
    """Return the robot; hinges turn about y, `*_hip` moves `*_upper` and `*_knee` moves `*_lower`."""
    m, s = scale**3, scale
    trunk = s * np.array([0.34, 0.14, 0.08])
    parts = [_link("trunk", m * MASSES["trunk"], np.zeros(3), trunk, _box(np.zeros(3), trunk))]
    down, limb = s * np.array([0.0, 0.0, -0.5 * LENGTH]), s * np.array([0.03, 0.02, 0.14])
    foot = f'<origin xyz="0 0 {-s * LENGTH}"/><geometry><sphere radius="{s * RADIUS}"/></geometry>'
    for name, x, y in (("fl", 1, 1), ("fr", 1, -1), ("rl", -1, 1), ("rr", -1, -1)):
        parts += [
            _link(f"{name}_upper", m * MASSES["upper"], down, limb, _box(down, limb)),
            _link(f"{name}_lower", m * MASSES["lower"], down, limb, foot),
            f'<joint name="{name}_hip" type="revolute"><parent link="trunk"/><child link="{name}_upper"/>'
            f'<origin xyz="{0.15 * s * x} {0.1 * s * y} 0"/><axis xyz="0 1 0"/>'
            f'<limit lower="-0.6" upper="1.8" effort="{20.0 * s**4}" velocity="20"/></joint>',
            f'<joint name="{name}_knee" type="revolute"><parent link="{name}_upper"/>'
            f'<child link="{name}_lower"/><origin xyz="0 0 {-s * LENGTH}"/><axis xyz="0 1 0"/>'
            f'<limit lower="-2.4" upper="-0.3" effort="{20.0 * s**4}" velocity="20"/></joint>',
        ]
    return "<robot name='pup'>" + "".join(parts) + "</robot>"
