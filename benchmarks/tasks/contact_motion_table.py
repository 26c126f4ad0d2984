"""The table of contact in motion: residual, factorizations and penetration of every step of a scene."""

from __future__ import annotations

SCENES = (
    *("hit_wall", "dominoes", "heap", "heap_1000", "heap_1000_rolling", "chain_500"),
    *("card_house", "stack_1000", "stack_10000", "tower_1000"),
)
"""Scenes of the table, as `contact_motion.py` names them."""


def rows(figures: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return a row for each scene; the last column is empty where there is no time of MuJoCo's."""
    return [
        {
            "scene, every step": f["title"],
            "residual [m/s]": f"{f['residual_max']:.1e}",
            "factorizations, mean / 99 % / most": (
                f"{f['iterations_mean']:.1f} / {f['iterations_99']:.0f} / {f['iterations_max']}"
            ),
            "deepest [mm]": f"{1.0e3 * f['deepest']:.2g}",
            "at the end [m/s]": f"{f['fastest']:.1e}",
            "time over MuJoCo's": f["mujoco_microseconds"] and f["microseconds"] / f["mujoco_microseconds"],
        }
        for f in figures
    ]
