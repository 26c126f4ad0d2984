"""Mistakes in tasks, names and options: errors say whose they are, what is missing, and what is close."""

import importlib.util
import sys

import pytest
import warp as wp

from newtonsim import envs
from newtonsim.envs import registry
from newtonsim.errors import NewtonsimError


class Sliding(envs.Task):
    """Right as it is; each test makes one mistake."""

    name, dt, observation_size = "Sliding", 0.01, 1

    def __init__(self, goal: float = 1.0, **options):
        super().__init__(**options)
        self.goal = goal

    def build(self, builder):
        body = builder.add_body(mass=1.0, I_m=wp.mat33(0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1))
        builder.add_joint_prismatic(-1, body, axis=(1.0, 0.0, 0.0))
        return envs.Motors(axes=[0], gears=[1.0], low=[-1.0], high=[1.0])

    def observe(self, w: envs.HostView) -> None:
        w.obs[:] = w.joint_q

    def score(self, w: envs.HostView) -> None:
        w.reward[:] = self.goal - w.joint_q[:, 0]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_tasks", {**registry._tasks, "Sliding": Sliding})


@wp.func
def function_of_warp(x: float):
    return x


def test_a_task_without_mistakes():
    env = envs.make("Sliding", 2, device="cpu", goal=3.0, threads=1)
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[1].shape == (2,)
    assert env.task.goal == 3.0


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"score": None}, "score: expected a kernel, or a method that takes a HostView, got None"),
        ({"observe": 3}, "observe: expected a kernel, or a method that takes a HostView, got 3"),
        ({"act": function_of_warp}, "act: expected a kernel"),
        ({"spawn": lambda self, w: None}, "spawn: expected a kernel or None, got"),
        ({"name": None}, "name: expected a name, got None"),
        ({"dt": None}, r"dt: expected the time of a solver step \[s\], greater than 0, got None"),
        ({"dt": 0.0}, "dt: expected the time of a solver step"),
        ({"frame_skip": 0}, "frame_skip: expected a whole number of at least 1, got 0"),
        ({"observation_size": None}, "observation_size: expected a whole number of at least 1, got None"),
        (
            {"build": lambda self, builder: None},
            "build: .* Motors, got None; is a return statement missing",
        ),
        ({"build": lambda self, builder: 3}, "build: expected it to return Motors, got 3$"),
        (
            {"make_solver": lambda self, model: None},
            "make_solver: expected it to return SolverBase, got None; is a return statement missing",
        ),
        ({"sensors": lambda self: None}, "sensors: expected it to return Mapping, got None"),
    ],
)
def test_what_a_task_lacks_is_named(mistake: dict, message: str):
    wrong = type("Wrong", (Sliding,), mistake)
    with pytest.raises(NewtonsimError, match=f"^Wrong: {message}"):
        envs.BatchedEnv(wrong(), 1, "cpu")


def test_what_was_never_defined_is_named():
    class Bare(envs.Task):
        name, dt, observation_size = "Bare", 0.01, 1
        build, observe = Sliding.build, Sliding.observe

    with pytest.raises(NewtonsimError, match=r"^Bare: score: expected a kernel.*got None"):
        envs.BatchedEnv(Bare(), 1, "cpu")
    del Bare.name
    with pytest.raises(NewtonsimError, match=r"^Bare: name: expected a name, got None"):
        envs.BatchedEnv(Bare(), 1, "cpu")
    with pytest.raises(NewtonsimError, match="register: expected a class derived from Task with a name"):
        envs.register(Bare)
    with pytest.raises(NewtonsimError, match="task: expected an object of a class derived from Task, got"):
        envs.BatchedEnv(Sliding, 1, "cpu")


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("Sliding", "gaol", "there is no option 'gaol'; did you mean 'goal'"),
        ("Ant", "healthy_rewrd", "there is no option 'healthy_rewrd'; did you mean 'healthy_reward'"),
        ("Ant", "randomize", "there is no option 'randomize'; did you mean 'randomise'.*xml, .*randomise"),
        ("Ant", "devise", "there is no option 'devise'; did you mean 'device'"),
    ],
)
def test_misspelt_options_are_named_with_the_closest(name: str, option: str, message: str):
    with pytest.raises(NewtonsimError, match=f"^{name}: {message}"):
        envs.make(name, 1, **{option: {}})
    with pytest.raises(NewtonsimError, match=f"^{name}: there is no option '{option}'"):
        registry.find(name).check_names([option])


def test_options_of_a_class_are_those_that_reach_it():
    class Narrow(Sliding):
        name = "Narrow"

        def __init__(self, width: float):
            super().__init__(goal=width)

    registry._tasks["Narrow"] = Narrow
    Sliding.check_names(["goal"])
    with pytest.raises(NewtonsimError, match="Narrow: there is no option 'goal'; there are width, num_envs"):
        envs.make("Narrow", goal=2.0)
    with pytest.raises(NewtonsimError, match="Narrow: missing a required argument: 'width'"):
        envs.make("Narrow")
    with pytest.raises(NewtonsimError, match="Sliding: there is no option 'goals'; there are none"):
        type("Forwards", (Sliding,), {"__init__": lambda self: Sliding.__init__(self, goals=1)})()


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("newtonsim/Ant-v0", "Ant"),
        ("Ant-v0", "Ant"),
        ("Ant-v5", "Ant"),
        ("ant", "Ant"),
        ("newtonsim/Hoper-v0", "Hopper"),
        ("HalfCheeta", "HalfCheetah"),
        ("antbulletenv", "AntBulletEnv-v0"),
        ("AntBulletEnv-v1", "AntBulletEnv-v0"),
    ],
)
def test_names_that_are_nearly_right_are_told_the_right_one(name: str, closest: str):
    with pytest.raises(NewtonsimError, match=f"no environment '{name}'; did you mean '{closest}'"):
        envs.make(name)


def test_without_gymnasium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gymnasium" else find(name))
    monkeypatch.delitem(sys.modules, "newtonsim.envs")
    with pytest.raises(ImportError, match=r"pip install 'newtonsim\[envs\]'"):
        importlib.import_module("newtonsim.envs")
