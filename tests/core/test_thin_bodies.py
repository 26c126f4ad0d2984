"""Bodies with a mass and no inertia of their own get that of the mass spread over their shapes."""

import numpy as np
import pytest
import warp as wp

import newtonsim


def body_with(add, mass: float = 1.0, com=None) -> newtonsim.Model:
    """A body without inertia and with the shapes that `add(builder, body)` gives it."""
    builder = newtonsim.ModelBuilder()
    body = builder.add_body(mass=mass, com=com, key="thin")
    add(builder, body)
    with pytest.warns(UserWarning, match="'thin': mass without inertia"):
        return builder.finalize("cpu")


@pytest.mark.filterwarnings("ignore:shape 0 has no volume")
def test_a_square_sheet_has_the_inertia_of_a_lamina(device):
    square = newtonsim.Mesh([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], [0, 1, 2, 0, 2, 3])
    model = body_with(lambda builder, body: builder.add_shape_mesh(body, mesh=square))
    assert model.body_mass.numpy()[0] == 1.0
    # m a² / 12 about an axis within the sheet, twice that about its normal
    third = 1.0 * 2.0**2 / 12.0
    np.testing.assert_allclose(model.body_inertia.numpy()[0], np.diag([third, third, 2 * third]), atol=1e-7)


@pytest.mark.filterwarnings("ignore:shape 0 has no volume")
def test_a_sheet_beside_the_centre_of_mass(device):
    square = newtonsim.Mesh([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], [0, 1, 2, 0, 2, 3])
    quarter = wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.5 * np.pi)

    def add(builder, body):
        builder.add_shape_mesh(body, pos=(0, 0, 3.0), rot=quarter, mesh=square)

    model = body_with(add, 2.0, (0.0, 0.0, 1.0))
    third = 2.0 * 2.0**2 / 12.0
    away = 2.0 * 2.0**2
    expected = np.diag([2 * third + away, third + away, third])
    np.testing.assert_allclose(model.body_inertia.numpy()[0], expected, atol=1e-5)
    np.testing.assert_array_equal(model.body_com.numpy()[0], (0, 0, 1))


def test_the_mass_fills_what_has_a_volume(device):
    model = body_with(lambda b, body: b.add_shape_box(body, hx=0.1, hy=0.2, hz=0.3, density=0.0), 6.0)
    expected = 6.0 / 3.0 * np.diag([0.2**2 + 0.3**2, 0.1**2 + 0.3**2, 0.1**2 + 0.2**2])
    np.testing.assert_allclose(model.body_inertia.numpy()[0], expected, rtol=1e-5)


def test_without_shapes_it_is_refused(device):
    builder = newtonsim.ModelBuilder()
    builder.add_body(mass=1.0, key="point")
    with pytest.raises(
        newtonsim.ModelError, match="'point': it has mass, but its inertia is not positive definite"
    ):
        builder.finalize(device)
