"""The benchmarks run on our engine alone, and give all engines the same robots in the same poses."""

import importlib
import json
import re
import sys

import numpy as np
import pytest
from rooms import ROOT

from newtonsim.examples import asset_path

SHORTEST = {
    "robots": ["--robots", "quadruped", "--worlds", "2"],
    "python_calls": ["--cases", "pile"],
    "pybullet_compat": ["--cases", "falling cube", "getJointState", "worlds"],
    "dynamics": ["--robots", "ant", "--worlds", "2"],
    "linear_models": ["--robots", "arm7", "--worlds", "2"],
    "contacts": ["--scenes", "gripper"],
    "contact_motion": ["--scenes", "card_house"],
    "deformables": ["--scenes", "cloth", "net", "heap"],
    "gradients": ["--tasks", "free body"],
    "gradient_cost": ["--worlds", "2", "--steps", "10"],
    "scaling": ["--robots", "quadruped", "--worlds", "1", "2", "--bodies", "3", "6"],
    "cameras": ["--worlds", "2"],
    "envs": ["--names", "CartPole", "--worlds", "4"],
    "actuators": ["--actuators", "--worlds", "4"],
    "bullet_world": ["--scenes", "arm", "--candidates", "4"],
    "profile_step": ["quadruped", "--worlds", "2"],
    "gpu_static": ["quadruped", "--arch"],
}


def run(name: str, options: list[str], monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *options])
    importlib.import_module(importlib.import_module("publish").SCRIPT_OF.get(name, name)).main()


@pytest.mark.parametrize("name", SHORTEST)
def test_figures_are_numbers(name: str, monkeypatch, tmp_path, capsys):
    path = tmp_path / "figures.json"
    run(name, [*SHORTEST[name], "--short", "--alone", "--json", str(path)], monkeypatch)
    document = json.loads(path.read_text())
    assert document["machine"]["cores"] >= 1
    times = re.findall(r'"\w*microseconds": ([^,\s}]+)', path.read_text())
    times = [float(text) for text in times if text != "null"]
    assert times
    assert np.all(np.isfinite(times))
    assert min(times) > 0.0
    assert "unstable" not in capsys.readouterr().out


def rows_of(name: str, options: list[str], monkeypatch, tmp_path) -> dict[str, list[dict]]:
    """Return what a benchmark writes in its short form."""
    path = tmp_path / "figures.json"
    run(name, [*options, "--short", "--json", str(path)], monkeypatch)
    return json.loads(path.read_text())["results"]


@pytest.mark.slow
def test_policies_that_ship_play_in_another_engine(monkeypatch, tmp_path):
    pytest.importorskip("mujoco")
    results = rows_of("transfer", ["--transfer", "--policies", "reach"], monkeypatch, tmp_path)
    row = results["transfer"][0]
    assert row["engine"] == "MuJoCo"
    assert row["share"] == f"{100.0 * row['return_there'] / row['return_here']:.0f} %"
    assert 6.0 < row["return_there"] < 8.0  # 8 is the most


@pytest.mark.slow
def test_falls_are_counted_by_level():
    """On two levels of four patches; the robot counts as fallen where it must stand twice as high."""
    policies = importlib.import_module("tasks.policies")
    options = {"levels": 2, "kinds": ("rough", "hill"), "patch_size": 4.0, "min_height": 2.0}
    shipped = policies.Shipped("velocity", "", 6, (), rough=True)
    rows = policies.by_level(
        lambda obs: np.zeros((len(obs), 12), np.float32), shipped, "VelocityRough", options, (0,)
    )
    assert [row["how"] for row in rows] == ["level 1 of 2", "level 2 of 2"]
    assert sum(row["episodes"] for row in rows) == 6
    assert [row["falls"] for row in rows] == [row["episodes"] for row in rows]
    assert {row["most_steps"] for row in rows} == {1000}


def test_random_programs_that_differ_are_counted():
    programs = importlib.import_module("tasks.pybullet_programs")
    lines = [
        *("0: seed 0", "1: seed 1"),
        "1: first getJointStates | 67 2 | 1, [0] | [11][3]: PyBullet 0, here 1: 1 apart, 0.005 allowed",
        "1: worst getJointStates | 67 2 | 1, [0] | [11][3]: PyBullet 0, here 1: 1 apart, 0.005 allowed",
        *(
            "2: seed 2",
            "2: first getNumBodies | 3 0 |  | PyBullet 2, here 3",
            "3: the process ended with -11",
        ),
    ]
    results = programs.outcome(lines, 4)
    assert results["programs"] == [
        {"programs": 4, "end_the_process": 1, "differ_in_structure": 1, "differ_in_a_number": 1}
    ]
    assert [(row["seed"], row["call"]) for row in results["differing"]] == [
        (1, "getJointStates"),
        (2, "getNumBodies"),
    ]


@pytest.mark.slow
def test_gradients_of_bounces_converge_to_continuous_time():
    settings = importlib.import_module("tasks.gradient_settings")
    for row in settings.bounces(short=True):
        coarse, fine = (float(row[key].split()[0]) for key in ("dt = 1/240 s", "dt = 1/960 s"))
        assert coarse < 10.0
        assert fine < 0.35 * coarse


@pytest.mark.parametrize("name", [*SHORTEST, "building", "startup", "learning"])
def test_help(name: str, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(name, ["--help"], monkeypatch)
    assert ended.value.code == 0
    assert "--short" in capsys.readouterr().out


def test_curves_of_results_are_drawn_with_date_and_machine(monkeypatch, tmp_path):
    """Those of the file, but for rows that have their own."""
    results, drawn = tmp_path / "results.json", tmp_path / "drawn.png"
    curve = {"samples": [1e6, 2e6], "seconds": [1.0, 2.0], "return": [None, 3.0]}
    rows = [{"environment": "Ant", "seed": seed, "curve": curve} for seed in (0, 1)]
    rows[1]["measured"] = "1999-12-31, Z80"
    results.write_text(json.dumps({"machine": {"date": "2000-01-01", "cpu": "6502"}, "results": rows}))
    learning = importlib.import_module("learning")
    assert [row["measured"] for row in learning.measured(results)] == ["2000-01-01, 6502", "1999-12-31, Z80"]
    run("learning", ["--drawn", str(results), "--plot", str(drawn)], monkeypatch)
    assert drawn.stat().st_size > 1000
    ours = learning.measured(ROOT / "benchmarks" / "results" / "learning.json")
    assert {row["environment"] for row in ours} >= {"Ant", "CartPole", "HalfCheetah", "Quadruped"}


def test_results_page_has_a_place_for_every_table():
    publish = importlib.import_module("publish")
    page = (ROOT / "benchmarks" / "results" / "README.md").read_text()
    for name in publish.ON_RESULTS_PAGE:
        assert "new figures" in publish.replace(page, name, "new figures\n")


@pytest.mark.parametrize("peer", ["mujoco", "pybullet"])
def test_robots_start_alike_in_all_engines(peer: str):
    """Robots fall freely for a few steps, from the same heights; their motors have no say in it."""
    pytest.importorskip(peer)
    engines = importlib.import_module("engines.robots")
    task = importlib.import_module("tasks.robots").load_task("humanoid", 3)
    lifted = task.poses.copy()
    lifted[:, 2] += np.array([0.5, 1.0, 1.5])
    task.poses[:] = lifted
    makers = {
        "mujoco": lambda: engines.MujocoRobots(task, 1, "EULER"),
        "pybullet": lambda: engines.PybulletRobots(task, 1),
    }
    other, ours = makers[peer](), engines.NewtonsimRobots(task, threads=1)
    for engine in (other, ours):
        engine.run(24, None)
    np.testing.assert_allclose(other.motion()[0], ours.motion()[0], atol=5.0e-3)
    assert np.all(lifted[:, 2] - ours.motion()[0] > 0.03)
    other.close()


@pytest.mark.parametrize("name", ["ant", "humanoid"])
def test_self_collision_is_of_the_same_shapes_as_in_mujoco(name: str):
    """All pairs whose rigid groups are neither one nor neighbours; the world is nobody's neighbour."""
    pytest.importorskip("mujoco")
    engines = importlib.import_module("engines.robots")
    task = importlib.import_module("tasks.robots").load_task(name, 1, self_collision=True)
    peer = importlib.import_module("engines.mujoco_models").mujoco_model(task)
    pairs = importlib.import_module("engines.mujoco_models").mujoco_pairs(peer)
    expected = {frozenset((peer.geom(a).name, peer.geom(b).name)) for a, b in pairs}
    ours = engines.NewtonsimRobots(task, threads=1).model
    found = {frozenset(ours.shape_key[s] for s in pair) for pair in ours.shape_contact_pairs.numpy()}
    assert found == expected


@pytest.mark.parametrize("self_collision", [False, True])
def test_unequal_work_has_no_ratio(self_collision: bool, capsys):
    """MuJoCo tests 126 pairs of the humanoid's shapes; ours, by default, only the 17 with the ground."""
    pytest.importorskip("mujoco")
    engines, robots = importlib.import_module("engines.robots"), importlib.import_module("robots")
    task = importlib.import_module("tasks.robots").load_task("humanoid", 2, self_collision=self_collision)
    makers = [engines.NewtonsimRobots(task, threads=1), engines.MujocoRobots(task, 1, "EULER", "NEWTON")]
    makers.append(engines.MujocoRobots(task, 1, "RK4", "NEWTON"))
    for engine in makers:
        engine.run(240, None)
    unequal = robots.unequal_work({engine.name: engine for engine in makers})
    assert unequal["newtonsim"] == []
    assert unequal["MuJoCo EULER, NEWTON"] == ([] if self_collision else ["126 pairs against 17"])
    assert "4 evaluations per step against 1" in unequal["MuJoCo RK4, NEWTON"]
    same = {"robot": "humanoid", "motion": "settled", "worlds": 2, "spread": 0.0, "restless": 0.0}
    same |= {"threads": 1, "microseconds": 1.0, "steps_per_second": 1.0e6}
    robots.show([same | {"engine": name, "unequal": "; ".join(how)} for name, how in unequal.items()])
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("MuJoCo EULER"))
    assert ("1.00x" in row) == self_collision
    assert ("no ratio to MuJoCo EULER, NEWTON, whose work differs: 126 pairs" in shown) != self_collision


def test_work_differs_by_shapes_steps_and_stop():
    work = importlib.import_module("tasks.work")
    ball = work.Work(1, (("plane", ()), ("sphere", (0.1,))), 0.01, 1, work.CONVERGED)
    assert (
        ball.differences(work.Work(1, (("sphere", (0.10001,)), ("plane", ())), 0.01, 1, work.CONVERGED)) == []
    )
    other = work.Work(1, (("sphere", (0.2,)), ("plane", ())), 0.005, 1, "with 50 iterations")
    assert len(ball.differences(other)) == 3
    assert len(ball.differences(work.Work(None, None, 0.01, 1, work.CONVERGED))) == 1


def test_the_made_up_humanoid_is_the_same_in_mujoco():
    pytest.importorskip("mujoco")
    task = importlib.import_module("tasks.robots").load_task("humanoid29", 1)
    peer = importlib.import_module("engines.mujoco_models").mujoco_model(task)
    assert task.poses.shape == (1, 7 + 29)
    np.testing.assert_array_equal(np.sort(task.hinges), np.arange(29))
    assert peer.nu == peer.nv - 6 == 29
    assert task.mass == pytest.approx(peer.body_mass.sum(), rel=1e-5)
    assert 30.0 < task.mass < 36.0


def test_the_quadruped_stands_on_its_drives():
    engines = importlib.import_module("engines.robots")
    task_module = importlib.import_module("tasks.robots")
    assert task_module.robot_path("quadruped") == str(asset_path("quadruped.xml"))
    engine = engines.NewtonsimRobots(task_module.load_task("quadruped", 2), threads=1)
    task_module.settle(engine, 2.0)
    assert task_module.stability(engine, "settled") == ""
    assert task_module.restless(engine) == 0.0
    np.testing.assert_allclose(engine.motion()[0], 0.3, atol=0.03)


@pytest.mark.parametrize("name", ["free body", "double pendulum", "7-link arm"])
def test_engines_have_the_same_task_and_gradient(name: str):
    """MuJoCo's differences of the same task are a truth of their own for our gradients.

    Not with contact, which MuJoCo makes soft.
    """
    pytest.importorskip("mujoco")
    tasks = importlib.import_module("tasks.gradients")
    task = tasks.TASKS[name]
    engines = importlib.import_module("engines.gradients")
    ours = engines.OurEngine(task, engines.Choice("FeatherstoneSolver"))
    peer = importlib.import_module("engines.gradients_mujoco").MujocoEngine(task, transition=False)
    assert ours.loss(ours.start) == pytest.approx(peer.loss(peer.start), abs=0.03)
    found, truth = ours.gradient(), peer.gradient()
    if name == "free body":
        # MuJoCo has the linear part first; spins, which are in other axes there, are left out
        found, truth = found[3:], truth[:3]
    scales = task.scales(len(truth))
    assert np.linalg.norm((found - truth) * scales) < 0.03 * np.linalg.norm(truth * scales)
