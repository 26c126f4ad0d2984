"""Make the picture of a policy that ships: its curve of learning, and how it plays in MuJoCo or on terrain.

    python docs/make_policy_picture.py RUN NAME [--every SECONDS] [--seed N] [--contact-time SECONDS]

RUN is the folder of a run of `newtonsim train`; docs/pictures/policy_NAME.png is written. It needs
newtonsim[learn,plot].
"""

import argparse
import pathlib

import numpy as np
from PIL import Image

from newtonsim import envs
from newtonsim.learn import PolicyFile
from newtonsim.learn.transfer import env_of, longest_step, solver_of

FRAMES, SIZE = 5, (300, 260)
DPI = 100


def curve_of(run: pathlib.Path, width: int) -> np.ndarray:
    """Return the mean return over samples as a picture of some pixels in width."""
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    table = np.genfromtxt(run / "curve.csv", delimiter=",", names=True)
    figure, axes = plt.subplots(figsize=(width / DPI, 2.2), dpi=DPI)
    axes.plot(table["samples"] / 1e6, table["return_"])
    axes.set_xlabel("samples [M]")
    axes.set_ylabel("return, with noise")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    plt.close(figure)
    return pixels


def strip_of(policy: PolicyFile, every: float, seed: int, contact_time: float) -> np.ndarray:
    """Return pictures of a policy side by side; it plays in MuJoCo, or here if its task is on terrain."""
    options = {name: value for name, value in policy.about["options"].items() if name != "randomise"}
    draw = {"render_mode": "rgb_array", "render_size": SIZE}
    if envs.find(policy.about["name"]).has_terrain:
        env = envs.make(policy.about["name"], 1, "cpu", **options, **draw)
    else:
        solver, longest = solver_of("mujoco", contact_time), longest_step("mujoco", contact_time)
        env = env_of(policy.about["name"], 1, options, solver, longest, **draw)
    obs, _ = env.reset(seed=seed)
    steps, frames = round(every * env.metadata["render_fps"]), []
    for step in range(FRAMES * steps):
        obs, *_ = env.step(policy(obs))
        if (step + 1) % steps == 0:
            frames.append(env.render()[0])
    return np.concatenate(frames, axis=1)


def main() -> None:
    """Put both below each other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("name")
    parser.add_argument("--every", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=4, help="of the start and its commands")
    parser.add_argument("--contact-time", type=float, default=0.02, help="of MuJoCo's contacts [s]")
    parser.add_argument("--folder", default=pathlib.Path(__file__).parent / "pictures", type=pathlib.Path)
    options = parser.parse_args()
    strip = strip_of(
        PolicyFile(options.run / "policy.onnx"), options.every, options.seed, options.contact_time
    )
    picture = np.concatenate([strip, curve_of(options.run, strip.shape[1])[:, : strip.shape[1]]], axis=0)
    Image.fromarray(picture).quantize(128).save(options.folder / f"policy_{options.name}.png", optimize=True)


if __name__ == "__main__":
    main()
