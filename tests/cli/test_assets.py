"""Our robot models load in MuJoCo, their inertia fits their geometry, and the quadruped stands."""

import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import pytest

from newtonsim.examples import asset_path

FOLDER = asset_path("ant.xml").parent
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".xml", ".urdf"))
# bodies, degrees of freedom, actuators, mass [kg]: as the table in assets/README.md says
EXPECTED = {
    "ant.xml": (14, 8, 0.911),
    "arm7.urdf": (7, 0, 16.5),  # MuJoCo merges the 4 kg base into the world
    "cartpole.urdf": (2, 0, 1.1),
    "double_pendulum.xml": (2, 2, 2.0),
    "gripper.urdf": (3, 0, 1.4),
    "half_cheetah.xml": (9, 6, 14.0),
    "hopper.xml": (6, 3, 15.82),
    "humanoid.xml": (23, 17, 42.12),
    "inverted_double_pendulum.xml": (3, 1, 18.87),
    "quadruped.xml": (18, 12, 16.0),
    "racecar.xml": (12, 4, 3.9),
    "reacher.xml": (4, 2, 0.0785),
    "walker.xml": (9, 6, 23.68),
}


def with_floor(name: str) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_file(str(asset_path(name)))
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    return spec.compile()


def test_every_model_is_listed():
    readme = (FOLDER / "README.md").read_text()
    assert sorted(EXPECTED) == FILES
    assert all(f"`{name}`" in readme for name in FILES)


def test_unknown_model_names_the_known_ones():
    with pytest.raises(FileNotFoundError, match=r"cartpole\.urdf"):
        asset_path("zebra.xml")


@pytest.mark.parametrize("name", FILES)
def test_loads_in_mujoco(name: str):
    model = mujoco.MjModel.from_xml_path(str(asset_path(name)))
    dofs, actuators, mass = EXPECTED[name]
    assert (model.nv, model.nu) == (dofs, actuators)
    assert sum(model.body_mass) == pytest.approx(mass, abs=0.01)


@pytest.mark.parametrize("name", ["ant.xml", "quadruped.xml", "humanoid.xml"])
def test_free_robots_rest_on_a_floor_and_do_not_touch_themselves(name: str):
    model = with_floor(name)
    data = mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    floor = model.geom("floor").id
    while data.time < 5.0:
        mujoco.mj_step(model, data)
        assert all(floor in (contact.geom1, contact.geom2) for contact in data.contact)
    assert np.abs(data.qvel).max() < 0.1
    assert data.ncon >= 3


def test_quadruped_stands_in_its_home_pose():
    model = with_floor("quadruped.xml")
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    feet = [data.geom(f"{leg}_foot").xpos[2] for leg in ("fl", "fr", "rl", "rr")]
    np.testing.assert_allclose(feet, 0.024, atol=1e-4)  # the feet touch the ground from the start
    while data.time < 5.0:
        mujoco.mj_step(model, data)
    assert data.qpos[2] > 0.9 * 0.3166


def test_arm_inertias_are_those_of_its_cylinders():
    for link in ET.parse(asset_path("arm7.urdf")).getroot().findall("link"):
        inertial = link.find("inertial")
        if inertial is None:
            continue
        cylinder = link.find("collision/geometry/cylinder").attrib
        m, r, h = (
            float(inertial.find("mass").get("value")),
            float(cylinder["radius"]),
            float(cylinder["length"]),
        )
        inertia = {key: float(value) for key, value in inertial.find("inertia").attrib.items()}
        across, along = m * (3 * r**2 + h**2) / 12, m * r**2 / 2
        assert inertia["ixx"] == pytest.approx(across, rel=1e-5), link.get("name")
        assert inertia["iyy"] == pytest.approx(across, rel=1e-5)
        assert inertia["izz"] == pytest.approx(along, rel=1e-4)
        assert inertial.find("origin").attrib == link.find("collision/origin").attrib
