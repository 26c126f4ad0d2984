"""Colours for the browser's lights.

three.js multiplies light by linear colours, and maps the result by a film curve before it writes sRGB; viser
passes colours of instances on as if they were linear. So colours are sent such that a well-lit surface
appears in the requested colour.

The film curve is the fit of the ACES output transform by Stephen Hill (in "Baking Lab", 2015), which three.js
names `ACESFilmicToneMapping`; the encoding is IEC 61966-2-1 (sRGB).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_LIGHT = 1.3
"""Radiance of a white surface that appears white; tops of bodies have more, their sides less."""
_EXPOSURE = 1.0 / 0.6
_TO_FILM = np.array([[0.59719, 0.35458, 0.04823], [0.07600, 0.90834, 0.01566], [0.02840, 0.13383, 0.83777]])
_FROM_FILM = np.array(
    [[1.60475, -0.53108, -0.07367], [-0.10208, 1.10813, -0.00605], [-0.00327, -0.07276, 1.07602]]
)
_TOP = (0.0245786, -0.000090537)
_BOTTOM = (0.983729, 0.4329510, 0.238081)


def lit_colors(colors: npt.ArrayLike) -> np.ndarray:
    """Return the colours to send so that given colours are seen.

    Args:
        colors: sRGB in 0..1, shape (..., 3).

    Returns:
        Colours of the instances, uint8, shape (..., 3). Colours that the film curve cannot reach become the
        nearest ones.
    """
    seen = np.clip(np.asarray(colors, float), 0.0, 1.0)
    linear = np.where(seen <= 0.04045, seen / 12.92, ((seen + 0.055) / 1.055) ** 2.4)
    film = np.clip(linear @ np.linalg.inv(_FROM_FILM).T, 0.0, 0.98)
    # the curve is (x² + t0 x + t1) / (b0 x² + b1 x + b2)
    a, b, c = 1.0 - _BOTTOM[0] * film, _TOP[0] - _BOTTOM[1] * film, _TOP[1] - _BOTTOM[2] * film
    curve = (-b + np.sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
    light = curve @ np.linalg.inv(_TO_FILM).T / (_EXPOSURE * _LIGHT)
    return np.round(255.0 * np.clip(light, 0.0, 1.0)).astype(np.uint8)
