"""Programs are recorded as they are, and go on as if they were not."""

import re

import numpy as np
import pytest
from rooms import ROOT

import newtonsim
from newtonsim.errors import RecordingError
from newtonsim.render import Recording, record_simulators
from newtonsim.solvers import FeatherstoneSolver

DT = 1.0 / 240.0


def bouncing_ball() -> newtonsim.Simulator:
    builder = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    ball = builder.add_body(origin=(0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0))
    builder.add_shape_sphere(ball, radius=0.1, restitution=0.7)
    builder.set_ground_plane(restitution=0.7)
    model = builder.finalize("cpu")
    return newtonsim.Simulator(model, FeatherstoneSolver(model), DT)


def test_every_run_has_a_file_and_its_results_do_not_change(tmp_path):
    alone = bouncing_ball()
    alone.step(120)
    with record_simulators(tmp_path / "runs", "ball") as paths:
        first, second = bouncing_ball(), bouncing_ball()
        first.step(70)
        second.step(12)
        first.step(50)
        first.reset()
        first.step(8)
    assert [path.name for path in paths] == ["ball-1.nsr", "ball-2.nsr", "ball-3.nsr"]
    one, two, three = (Recording.open(path, "cpu") for path in paths)
    # 60 frames a second of 240 steps, the start among them
    assert np.allclose(one.times, 4.0 * DT * np.arange(31))
    assert (len(two), len(three)) == (4, 3)
    assert np.array_equal(one.load(-1).body_q.numpy(), alone.state.body_q.numpy())
    assert np.array_equal(one.load(2).body_q.numpy(), three.load(2).body_q.numpy())


def test_what_steps_outside_is_not_recorded(tmp_path):
    ball = bouncing_ball()
    with record_simulators(tmp_path) as paths:
        pass
    ball.step()
    assert paths == []
    assert list(tmp_path.iterdir()) == []


def test_slow_frames_and_long_steps(tmp_path):
    ball = bouncing_ball()
    with record_simulators(tmp_path, fps=1000.0) as paths:
        ball.step(5)
    assert np.allclose(Recording.open(paths[0], "cpu").times, DT * np.arange(6))


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf")])
def test_rates_that_make_no_sense_are_refused(fps: float, tmp_path):
    with pytest.raises(RecordingError, match="fps"), record_simulators(tmp_path, fps=fps):
        pass


def test_the_program_of_the_gallery_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "gallery.md").read_text(), re.DOTALL)[1]
    exec(compile(code, "gallery.md", "exec"), {})
    assert capsys.readouterr().out.strip().endswith("61")


def test_examples_are_listed(capsys, monkeypatch):
    from newtonsim.examples import __main__

    monkeypatch.setattr("sys.argv", ["newtonsim.examples"])
    __main__.main()
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == sorted(path.stem for path in (ROOT / "examples").glob("[!_]*.py"))


def test_an_example_without_its_extra_says_so_before_it_begins(capsys, monkeypatch):
    from newtonsim.examples import __main__

    monkeypatch.setattr("sys.argv", ["newtonsim.examples", "arm_mpc"])
    monkeypatch.setattr(__main__, "missing_packages", lambda extra: ["matplotlib"])
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("error: arm_mpc needs matplotlib: pip install 'newtonsim[plot]'")


def test_the_extras_of_examples_are_those_that_their_docstrings_name():
    from newtonsim.examples.__main__ import needed_extras

    assert needed_extras("shac_hopper") == ["torch", "plot"]
    assert needed_extras("quadrupeds") == []
