"""Studies that workers of a sweep can import."""

import os
import pathlib
import signal

import numpy as np

import newtonsim


class Sliders:
    """A mass with viscous damping on a rail, in each world; keeps one model for all batches.

    Args:
        worlds: Candidates in a batch.
        notes: Folder in which each call leaves a file.
    """

    STEPS, DT = 50, 0.01

    def __init__(self, worlds: int, notes: pathlib.Path | None = None):
        slider = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        body = slider.add_body(mass=1.0, I_m=np.eye(3))
        slider.add_joint_prismatic(-1, body, axis=(1.0, 0.0, 0.0), armature=0.0)
        scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        scene.replicate(slider, worlds, spacing=(0.0, 0.0, 0.0))
        self.model, self.notes = scene.finalize("cpu"), notes
        self.sim = newtonsim.Simulator(
            self.model, newtonsim.FeatherstoneSolver(self.model), self.DT, threads=1
        )
        note(notes, "made")

    def __call__(self, parameters: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        note(self.notes, "called")
        self.model.body_mass.assign(parameters["mass"].astype(np.float32))
        self.model.joint_damping.assign(parameters["damping"].astype(np.float32))
        self.sim.reset()
        self.sim.state.joint_qd.fill_(1.0)
        self.sim.step(self.STEPS)
        q, qd = self.sim.state.joint_q.numpy(), self.sim.state.joint_qd.numpy()
        return {"end": np.stack([q, qd], axis=1), "world": np.arange(len(q))}


class MortalSliders(Sliders):
    """Sliders whose worker is killed in the batch that has the largest mass, unless one was before."""

    def __call__(self, parameters: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if parameters["mass"].max() == 5.0 and not list(self.notes.glob("killed*")):
            note(self.notes, "killed")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(parameters)


def always_dies(parameters: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Kill the worker in the batch with candidate 6."""
    if (parameters["number"] == 6).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return {"double": 2 * parameters["number"]}


def refuses_six(parameters: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Raise in the batch with candidate 6."""
    if (parameters["number"] == 6).any():
        raise ZeroDivisionError("six is not welcome")
    return {"double": 2 * parameters["number"]}


def note(folder: pathlib.Path | None, what: str) -> None:
    """Leave a file that names the process and the GPUs that it sees."""
    if folder is not None:
        count, gpus = len(list(folder.iterdir())), os.environ.get("CUDA_VISIBLE_DEVICES")
        (folder / f"{what}-{os.getpid()}-{gpus}-{count}").touch()
