"""What `Model.describe` prints: every element of one world by name, with its type, coordinates and units."""

import math

import pytest
import warp as wp

import newtonsim
from newtonsim.errors import ModelError

ROUND = wp.mat33(0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1)


def robot() -> newtonsim.ModelBuilder:
    builder = newtonsim.ModelBuilder()
    base = builder.add_body(key="base")
    builder.add_joint_free(base, key="root")
    builder.add_shape_box(base, hx=0.1, hy=0.2, hz=0.3, density=1000.0, key="hull")
    arm = builder.add_body(key="arm", mass=2.0, I_m=ROUND)
    builder.add_joint_revolute(
        base,
        arm,
        axis=(0.0, 0.0, 1.0),
        key="shoulder",
        limit_lower=-1.5,
        limit_upper=0.5,
        mode=newtonsim.JOINT_MODE_TARGET_POSITION,
        target_ke=70.0,
        target_kd=3.0,
    )
    tip = builder.add_body(key="tip", mass=0.25, I_m=ROUND)
    builder.add_joint_ball(arm, tip, key="wrist")
    builder.add_shape_capsule(tip, radius=0.05, half_height=0.125, key="finger")
    builder.add_constraint_weld(base, tip, key="clamp")
    return builder


def two_worlds(device: str) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder()
    for _ in range(2):
        builder.add_builder(robot())
    builder.set_ground_plane()
    return builder.finalize(device)


def line(text: str, *words: str) -> str:
    """The one line that holds all the words."""
    found = [row for row in text.splitlines() if all(word in row for word in words)]
    assert len(found) == 1, (words, text)
    return found[0]


def test_every_element_of_a_world_is_a_row(device):
    text = two_worlds(device).describe(1)
    # a box of 0.2 x 0.4 x 0.6 m at 1000 kg/m^3
    assert line(text, "base", "48").split()[0] == "3"
    assert (
        "2 worlds, 6 bodies, 6 joints, 24 coordinates, 20 degrees of freedom, 5 shapes, 2 constraints" in text
    )
    assert "q[12:19] position [m], quaternion" in line(text, "root", "free", "world -> base")
    shoulder = line(text, "shoulder", "revolute", "base -> arm", "q[19:20]")
    assert "about (0, 0, 1) -1.5..0.5 rad position drive 70 N m/rad, 3 N m s/rad" in shoulder
    assert "q[20:24] quaternion" in line(text, "wrist", "ball")
    assert "(0.1, 0.2, 0.3)" in line(text, "hull", "box")
    assert "(0.05, 0.125)" in line(text, "finger", "capsule", "tip")
    assert line(text, "clamp", "loop", "base and tip").split()[0] == "1"
    assert "plane" not in text.replace("ground plane", "")


def test_numbers_and_nouns_agree(device):
    builder = newtonsim.ModelBuilder()
    builder.add_joint_revolute(-1, builder.add_body(mass=1.0, I_m=ROUND), axis=(1.0, 0.0, 0.0))
    model = builder.finalize(device)
    counts = "1 world, 1 body, 1 joint, 1 coordinate, 1 degree of freedom, 0 shapes, 0 constraints"
    assert repr(model) == f"<Model on {device}: {counts}>"
    assert model.describe().startswith(f"model on {device}: {counts}\n")
    assert "\nworld 0:\n" in model.describe()
    assert "2 worlds" in repr(two_worlds(device))
    assert "\nworld 1 of 0..1:\n" in two_worlds(device).describe(1)


def test_the_global_world_has_the_ground(device):
    text = two_worlds(device).describe(-1)
    assert "plane" in line(text, "ground_plane", "world")
    assert "base" not in text


def test_endless_limits_are_left_out(device):
    builder = newtonsim.ModelBuilder()
    builder.add_joint_prismatic(
        -1,
        builder.add_body(mass=1.0, I_m=ROUND),
        axis=(1.0, 0.0, 0.0),
        limit_lower=-math.inf,
        limit_upper=math.inf,
    )
    text = builder.finalize(device).describe()
    assert "along (1, 0, 0)" in text
    assert ".. " not in text
    assert "inf" not in text


@pytest.mark.parametrize("world", [-2, 2])
def test_no_such_world(world: int, device):
    with pytest.raises(ModelError, match=r"world: expected one of -1\.\.1"):
        two_worlds(device).describe(world)
