"""Wavefront files of several objects, as convex decompositions write them."""

import os

import numpy as np
import pybullet_data
import pytest

import newtonsim
from newtonsim.importers import parse_sdf, parse_urdf
from newtonsim.solvers import FeatherstoneSolver

_CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
_QUADS = ((1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4))

URDF = """<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"
  ixz="0" iyz="0"/></inertial><collision><geometry><mesh filename="{file}" scale="2 1 1"/></geometry>
  </collision></link></robot>"""
SDF = """<sdf version="1.9"><model name="m"><link name="a"><collision name="c"><geometry><mesh>
  <uri>file://{file}</uri><scale>2 1 1</scale></mesh></geometry></collision></link></model></sdf>"""


def two_cubes(path, mark: str = "o") -> str:
    """Write cubes of 1 m about x = -2 and x = 2, with a gap of 3 m between them."""
    lines = []
    for number, x in enumerate((-2.0, 2.0)):
        lines.append(f"{mark} part_{number}")
        lines += ["v {:g} {:g} {:g}".format(*corner) for corner in _CORNERS + np.array([x, 0.0, 0.0])]
        lines += ["f {} {} {} {}".format(*(8 * number + i for i in quad)) for quad in _QUADS]
    path.write_text("\n".join(lines))
    return str(path)


def contacts_of_ball(parse, text: str, x: float, **options) -> int:
    """Number of contacts of the file's link at the origin with a ball of 0.3 m radius at x."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse(text, builder, **options)
    ball = builder.add_body(origin=((x, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
    builder.add_joint_free(ball)
    builder.add_shape_sphere(ball, radius=0.3)
    model = builder.finalize()
    contacts = newtonsim.collide(model, model.state())
    return int(contacts.rigid_contact_count.numpy()[0])


@pytest.mark.parametrize("mark", ["o", "g"])
@pytest.mark.parametrize(("parse", "text"), [(parse_urdf, URDF), (parse_sdf, SDF)])
def test_nothing_touches_the_gap_between_objects(tmp_path, parse, text, mark):
    text = text.format(file=two_cubes(tmp_path / "two.obj", mark))
    options = {"floating": True} if parse is parse_urdf else {}
    assert contacts_of_ball(parse, text, 0.0, **options) == 0
    assert contacts_of_ball(parse, text, 0.0, merge_mesh_objects=True, **options) > 0
    assert contacts_of_ball(parse, text, 4.0, **options) > 0, "the scale counts for objects, too"


def test_objects_of_a_link_have_names_of_their_own_and_do_not_meet(tmp_path):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    report = parse_urdf(URDF.format(file=two_cubes(tmp_path / "two.obj")), builder, floating=True)
    assert len(report.shapes["a"]) == 2
    assert len({builder.shape_key[i] for i in report.shapes["a"]}) == 2
    assert np.allclose(builder.body_mass[0], 1000.0 * 2.0 * 2.0), "density and volume of both"
    model = builder.finalize()
    assert model.shape_contact_pair_count == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laikago.urdf", "laikago_toes.urdf", "laikago_toes_zup.urdf"])
def test_laikago_of_convex_parts_is_calm(name):
    """Without gravity nothing moves: its parts do not touch, while the hulls of its links do."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
    parse_urdf(os.path.join(pybullet_data.getDataPath(), "laikago", name), builder, floating=True)
    model = builder.finalize()
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1.0 / 240.0)
    for _ in range(24):
        simulator.step()
    assert np.abs(simulator.state.body_qd.numpy()).max() < 1.0e-3
