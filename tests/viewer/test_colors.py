"""Colours that are sent, against what three.js documents that it makes of them."""

import numpy as np
import pytest

from newtonsim.render.viewer.colors import lit_colors

GOOD_LIGHT = 1.3


def drawn(sent):
    """sRGB of a surface in good light: ACESFilmicToneMapping at exposure 1, then the sRGB encoding."""
    into = np.array([[0.59719, 0.35458, 0.04823], [0.07600, 0.90834, 0.01566], [0.02840, 0.13383, 0.83777]])
    out = np.array(
        [[1.60475, -0.53108, -0.07367], [-0.10208, 1.10813, -0.00605], [-0.00327, -0.07276, 1.07602]]
    )
    v = into @ (GOOD_LIGHT * np.asarray(sent, float) / 255.0 / 0.6)
    v = (v * (v + 0.0245786) - 0.000090537) / (v * (0.983729 * v + 0.4329510) + 0.238081)
    linear = np.clip(out @ v, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1.0 / 2.4) - 0.055)


@pytest.mark.parametrize(
    "color", [(0.27, 0.4, 0.67), (0.5, 0.5, 0.5), (0.13, 0.13, 0.13), (0.8, 0.75, 0.3), (0.1, 0.5, 0.2)]
)
def test_the_colour_of_a_shape_is_seen(color):
    np.testing.assert_allclose(drawn(lit_colors(color)), color, atol=0.015)


def test_colours_beyond_the_curve_stay_colours():
    sent = lit_colors(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [2.0, -1.0, 0.0]]))
    assert (sent[0] == sent[2]).all()
    assert sent[0].argmax() == 0
    assert drawn(sent[1]).min() > 0.9
