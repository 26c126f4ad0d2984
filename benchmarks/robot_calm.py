"""Robot files of published packages by default options: at rest without gravity, and dropped.

Nothing should happen to a robot at rest, whatever of it overlaps, and a dropped one should never have more
energy than it began with.

python benchmarks/robot_calm.py                               # packages that are installed here
python benchmarks/robot_calm.py --folder ~/wheels/dm_control  # and unpacked wheels, one folder a package
python benchmarks/robot_calm.py --json OUT                    # all figures

Robots from URDF float. They are dropped by 0.3 m onto a ground plane; files of MJCF that have a floor keep to
theirs. What lies in another body or beyond its limits in the pose of the file is pushed out, and springs and
drives pull: depth and angle are shown, for only that may give energy. The command ends with status 1 if a
robot becomes non-finite or gains more than 1 J/kg.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from engines.import_facts import find_models
from import_fidelity import INSTALLED, LEFT_OUT, installed

import newtonsim
from newtonsim import Model, ModelBuilder, Simulator, State, dynamics
from newtonsim.importers import parse_mjcf, parse_urdf
from newtonsim.scene.enums import GeoType
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0
REST_STEPS = 48
HEIGHT = 0.3
"""Height of the drop [m]."""

MOST = 1.0
"""Energy that may come from nowhere [J/kg]."""


@dataclass
class Figures:
    """What became of one file.

    Attributes:
        package: Package that holds it.
        file: Path inside the package.
        error: Why it is not simulated, "" if it is.
        overlaps: Pairs of links that `finalize` left out.
        depth: Deepest contact in the pose of the file [m].
        outside: Farthest that a joint is beyond its limits there [rad or m].
        rest: Largest kinetic energy within 0.2 s from rest without gravity [J/kg].
        gain: Most by which kinetic and potential energy were above the start in the drop [J/kg].
        rise: Most by which they grew within four steps, whatever was lost before [J/kg].
        end: Kinetic energy at the end [J/kg].
    """

    package: str
    file: str
    error: str = ""
    overlaps: int = 0
    depth: float = 0.0
    outside: float = 0.0
    rest: float = 0.0
    gain: float = 0.0
    rise: float = 0.0
    end: float = 0.0

    @property
    def is_calm(self) -> bool:
        """Whether all energies are numbers within the limit; files that do not open are."""
        return bool(self.error) or (self.rest <= MOST and self.gain <= MOST)  # false for NaN


def read(kind: str, path: Path) -> ModelBuilder:
    """Read a file by the default options; URDF floats."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", newtonsim.UnsupportedElementWarning)
        if kind == "urdf":
            parse_urdf(path, builder, floating=True)
        else:
            parse_mjcf(path, builder)
    return builder


def finalize(builder: ModelBuilder) -> tuple[Model, int]:
    """Return the model, and how many warnings of overlaps it took."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", newtonsim.OverlapWarning)
        model = builder.finalize("cpu")
    return model, sum(issubclass(w.category, newtonsim.OverlapWarning) for w in caught)


def energy(model: Model, state: State) -> tuple[float, float]:
    """Kinetic energy, and that with the potential energy in gravity [J]."""
    kinetic = float(dynamics.kinetic_energy(model, state).numpy().sum(dtype=np.float64))
    return kinetic, kinetic + float(dynamics.potential_energy(model, state).numpy().sum(dtype=np.float64))


def beyond_limits(model: Model) -> float:
    """Farthest that a joint is beyond its limits at the start [rad or m]; ball joints are left out."""
    q, lower, upper = (a.numpy() for a in (model.joint_q, model.joint_limit_lower, model.joint_limit_upper))
    starts, first = model.joint_q_start.numpy(), model.joint_axis_start.numpy()
    farthest = 0.0
    for joint, count in enumerate(model.joint_axis_dim.numpy().sum(axis=1)):
        axes = slice(first[joint], first[joint] + count)
        values = q[starts[joint] : starts[joint + 1]]
        if len(values) == count:
            outside = np.maximum(lower[axes] - values, values - upper[axes])
            farthest = max(farthest, float(outside.max(initial=0.0)))
    return farthest


def rest(model: Model, mass: float) -> tuple[float, float]:
    """Deepest contact of the first step [m], and the largest kinetic energy from rest [J/kg]."""
    solver, most, depth = FeatherstoneSolver(model), 0.0, 0.0
    simulator = Simulator(model, solver, DT)
    for step in range(REST_STEPS):
        simulator.step()
        if step == 0:
            found = int(solver.contacts.world_count.numpy()[0])
            depth = -float(solver.contacts.rigid_contact_distance.numpy()[:found].min(initial=0.0))
        most = np.fmax(most, energy(model, simulator.state)[0] / mass)
        if not np.isfinite(simulator.state.body_q.numpy()).all():
            return depth, float("nan")
    return depth, float(most)


def drop(model: Model, mass: float, seconds: float) -> tuple[float, float, float]:
    """Most energy above that at the start, most growth in four steps, kinetic energy at the end [J/kg]."""
    simulator = Simulator(model, FeatherstoneSolver(model), DT)
    start = total = energy(model, simulator.state)[1]
    gain = rise = kinetic = 0.0
    for _ in range(round(seconds / DT / 4.0)):
        simulator.step(4)
        before, (kinetic, total) = total, energy(model, simulator.state)
        if not np.isfinite(simulator.state.body_q.numpy()).all():
            return float("nan"), float("nan"), float("nan")
        gain, rise = max(gain, (total - start) / mass), max(rise, (total - before) / mass)
    return gain, rise, kinetic / mass


def add_ground(builder: ModelBuilder, model: Model) -> None:
    """Put a plane 0.3 m below the lowest shape, unless there is one."""
    kinds = model.shape_geo.type.numpy()
    if GeoType.PLANE in kinds or GeoType.HFIELD in kinds or not len(kinds):
        return
    body, radius = model.shape_body.numpy(), model.shape_collision_radius.numpy()
    pose, place = model.state().body_q.numpy(), model.shape_transform.numpy()
    heights = [
        (newtonsim.geometry.transforms.transform_point(pose[b], place[s, :3])[2] if b >= 0 else place[s, 2])
        for s, b in enumerate(body)
    ]
    builder.set_ground_plane(normal=(0.0, 0.0, 1.0), offset=float(np.min(heights - radius)) - HEIGHT)


def measure(package: str, folder: Path, kind: str, path: Path, seconds: float) -> Figures:
    """Simulate one file, and note why if it cannot be."""
    figures = Figures(package, str(path.relative_to(folder)))
    try:
        simulate(figures, kind, path, seconds)
    except (newtonsim.NewtonsimError, OSError) as error:
        figures.error = str(error).replace(f"{folder}/", "")
    return figures


def simulate(figures: Figures, kind: str, path: Path, seconds: float) -> None:
    """Simulate a file and fill in what became of it."""
    builder = read(kind, path)
    gravity, builder.gravity = builder.gravity, 0.0
    model, figures.overlaps = finalize(builder)
    mass = float(model.body_mass.numpy().sum(dtype=np.float64))
    if mass <= 0.0:
        figures.error = "nothing in it moves"
        return
    figures.outside = beyond_limits(model)
    figures.depth, figures.rest = rest(model, mass)
    builder.gravity = gravity
    add_ground(builder, model)
    figures.gain, figures.rise, figures.end = drop(finalize(builder)[0], mass, seconds)


def main() -> None:
    """Simulate all files and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", nargs="*", type=Path, default=[], help="unpacked wheels")
    parser.add_argument("--installed", nargs="*", choices=INSTALLED, default=INSTALLED, help="only these")
    parser.add_argument("--seconds", type=float, default=5.0, help="after the drop (default: 5)")
    parser.add_argument("--json", type=Path, help="write all figures")
    arguments = parser.parse_args()
    found = []
    for package, folder in [*installed(arguments.installed), *((p.name, p) for p in arguments.folder)]:
        for kind, path in find_models(folder):
            if not any(part in LEFT_OUT for part in path.parts):
                figures = measure(package, folder, kind, path, arguments.seconds)
                found.append(figures)
                print(line(figures), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(figures) for figures in found], indent=1))
    wild = [figures for figures in found if not figures.is_calm]
    opened = sum(not figures.error for figures in found)
    print(f"{opened} of {len(found)} files simulated, {len(wild)} of them not calm")
    sys.exit(1 if wild else 0)


def line(figures: Figures) -> str:
    """One line of the table."""
    name = f"{figures.package}/{figures.file}"
    if figures.error:
        return f"{name}: {figures.error.splitlines()[0][:100]}"
    text = f"{name}: rest {figures.rest:.2g}, gain {figures.gain:.2g}, rise {figures.rise:.2g}"
    text += f", end {figures.end:.2g} J/kg"
    text += f", {1.0e3 * figures.depth:.2g} mm deep" if figures.depth > 1.0e-4 else ""
    text += f", {figures.outside:.2g} beyond limits" if figures.outside > 1.0e-3 else ""
    return text + ("" if figures.is_calm else "  NOT CALM")


if __name__ == "__main__":
    main()
