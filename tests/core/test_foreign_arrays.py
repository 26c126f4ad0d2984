"""No public function works on the arrays of another model: kernels would touch memory that is not theirs."""

import contextlib
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import ModelError, NewtonsimError, diff, dynamics, optimize, render, solvers
from newtonsim.actuators import PD, ActuatedSolver, Actuators, FileControls
from newtonsim.importers import parse_mjcf
from newtonsim.render.viewer import Viewer

pytestmark = pytest.mark.filterwarnings("ignore::newtonsim.OverlapWarning")  # of no matter here


def packages() -> list[str]:
    """Every package that says what it exports, and two that are documented without."""
    found = ["newtonsim.collision", "newtonsim.render.camera"]
    root = Path(__file__).parents[2]
    for room in ("newtonsim", "solvers", "render", "importers"):
        for file in sorted((root / room).rglob("__init__.py")):
            parts = file.parent.relative_to(root).parts
            name = ".".join(parts if room == "newtonsim" else ("newtonsim", *parts))
            if getattr(importlib.import_module(name), "__all__", None):
                found.append(name)
    return found


PACKAGES = packages()
TAKES = re.compile(r"\b(State|Control|Controls|Contacts|Start)\b")
MADE_BY_LIBRARY = {"RolloutResult.__init__", "StepForces.__init__", "View.check_change", "View.follow_change"}
"""Records that hold what they are given, and what fields tell their view."""
ABSTRACT = ("SolverBase.step", "SolverBase.simulate")


ARRAYS = re.compile(r"\bwp\.array\b")
PLAIN_NUMBERS = (
    re.compile(
        r"changes$|\.(solve|improve|evaluate)$|^Problem\."
        r"|Cost\.__init__$|^Identification\.__init__$|^Result\.__init__$"
    ),
    {
        "ModelBuilder.add_spring",
        "General.__init__",
        "Activation.__init__",
        "BulletWorld.restore_state",
        "compare_with_oracle",
        "holding_forces",
        "ControlledMotion.__init__",
        "run_policy",
    }
    | {"Rollout.backward", "Rollout.__call__"},
)
"""Functions with a parameter that is named like an array of a model and is something else.

They are those of costs, which take NumPy arrays of one world and read them on the host, and a few more.
"""
LIKE_ARRAYS = re.compile(r"^(states?|controls?|contacts|(joint|body|particle)_(q|qd|qdd|f))(_.+)?$")


NO_ACTUATORS = "<mujoco><worldbody><body><geom size='.1'/></body></worldbody></mujoco>"


def functions() -> Iterator[tuple[str, Any]]:
    """Every public function and method but stages of a step, whose arguments solvers have checked."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]:
            thing = getattr(module, name)
            members = [(name, thing)] if inspect.isfunction(thing) else []
            if inspect.isclass(thing):
                members = [
                    (f"{thing.__name__}.{key}", method)
                    for key, method in inspect.getmembers(thing, inspect.isfunction)
                    if key[0] != "_" or key in ("__call__", "__init__")
                ]
            for key, function in members:
                parameters = inspect.signature(function).parameters
                ours = function.__module__.startswith("newtonsim")
                is_stage = "launch" in parameters or "shard" in parameters
                if ours and not is_stage and key not in MADE_BY_LIBRARY and key not in ABSTRACT:
                    yield key, function


def doors(pattern: re.Pattern = TAKES) -> dict[str, tuple[Any, list[str]]]:
    """Functions with parameters of some types, a state, a control or contacts, and which these are."""
    found = {}
    for key, function in functions():
        parameters = inspect.signature(function).parameters.items()
        taken = [name for name, parameter in parameters if pattern.search(str(parameter.annotation))]
        if taken:
            found[key] = function, taken
    return found


def builder(bodies: int) -> newtonsim.ModelBuilder:
    robot = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parent, frame = -1, wp.transform((0.0, 0.0, 0.5), wp.quat_identity())
    for number in range(bodies):
        link = robot.add_body(mass=1.0, I_m=np.eye(3) * 0.1, key=f"link{number}")
        robot.add_joint_revolute(parent, link, axis=(0.0, 1.0, 0.0), parent_xform=frame)
        robot.add_shape_sphere(link, radius=0.1)
        parent = link
    robot.set_ground_plane()
    return robot


def copies(robot: newtonsim.ModelBuilder, count: int) -> newtonsim.ModelBuilder:
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(robot, count, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane()
    return scene


class Large:
    """A model, and objects and arguments for all functions, by the names of classes and parameters."""

    def __init__(self, folder: Path, device: str):
        self.folder = folder
        self.robot = builder(6)
        self.model = model = copies(self.robot, 4).finalize(device=device, requires_grad=True)
        self.small = copies(builder(2), 1).finalize(device=device, requires_grad=True)
        solver = newtonsim.SemiImplicitSolver(model)
        self.rollout = diff.Rollout(model, solver, 2, 1e-3, _no_loss, wrt=["state.joint_q"])
        self.problem = optimize.Problem(
            self.robot, [optimize.ControlCost(0.1)], 3, 1e-2, bounds=(-1.0, 1.0), device=device
        )
        self.recording = folder / "run.nsr"
        with render.Recorder(self.recording, model) as recorder:
            recorder.record(model.state(), 0.0)

    def arguments(self) -> dict[str, Any]:
        model = self.model
        return {
            "model": model,
            "state": model.state(),
            "current_state": model.state(),
            "state_in": model.state(),
            "state_out": model.state(),
            "states": [model.state()],
            "other": model.state(),
            "start": None,
            "control": None,
            "controls": None,
            "default": model.control(),
            "ctrl": np.zeros(0),
            "contacts": None,
            "dt": 1e-3,
            "world_mask": None,
            "joint_q": model.joint_q,
            "joint_qd": model.joint_qd,
            "joint_qdd": model.joint_qd,
            "mask": None,
            "time": 1.0,
            "index": 0,
            "iterations": 1,
            "tape": wp.Tape(),
            "path": self.folder / "sheet.png",
            "values": {"state.joint_q": np.zeros(6)},
            "sigma": 0.1,
            "rollout": self.rollout,
            "key": wp.zeros(4, dtype=int, device=model.device),
            "episode": wp.zeros(4, dtype=int, device=model.device),
            "steps": 2,
            "loss": _no_loss,
            "wrt": ["state.joint_q"],
            "solver": newtonsim.SemiImplicitSolver(model),
            "inputs": None,
            "outputs": (),
            "particle_deltas": wp.zeros(0, dtype=wp.vec3, device=model.device),
            "body_deltas": wp.zeros(24, dtype=wp.spatial_vector, device=model.device),
        }

    def foreign(self, parameter: str) -> Any:
        if parameter.startswith("control") or parameter == "default":
            return self.small.control()
        if parameter == "contacts":
            return self.small.contact()
        return [self.small.state()] if parameter == "states" else self.small.state()

    def shorter(self, parameter: str) -> wp.array:
        """An array that is right but for its length."""
        model = self.model
        kinds = {"mask": wp.bool, "world_mask": wp.bool, "seeds": float, "key": int, "episode": int}
        if parameter in kinds:
            return wp.zeros(model.world_count - 1, dtype=kinds[parameter], device=model.device)
        if parameter == "contact_forces":
            return wp.zeros(model.contact().rigid_contact_max - 1, dtype=wp.vec3, device=model.device)
        if parameter == "particle_deltas":  # the model has no particles: one too many
            return wp.zeros(1, dtype=wp.vec3, device=model.device)
        of_bodies = {"rigid_contact_inv_weight": model.body_inv_mass, "body_tf": model.body_q}
        of_bodies["joint_f"] = model.joint_qd
        known = of_bodies.get(parameter)
        return _shorter(self.arguments()[parameter] if known is None else known)

    def actuators(self) -> Actuators:
        return Actuators(self.model, {"*": PD(stiffness=10.0, damping=1.0)}, 1e-3)

    @contextlib.contextmanager
    def owner(self, name: str) -> Iterator[Any]:
        """An object of a class."""
        model = self.model
        eye = render.look_at((1.0, 0.0, 0.0), (0.0, 0.0, 0.0))
        if hasattr(solvers, name):
            yield getattr(solvers, name)(model)
        elif name == "Identification":
            yield optimize.Identification(self.problem, [optimize.Parameter("body_mass", 0)], np.zeros(6))
        elif hasattr(optimize, name) and name not in ("Problem", "Controller"):
            yield getattr(optimize, name)(self.problem)
        elif name == "Film":
            with render.Film(self.folder / "film.gif", model, width=32, height=32) as film:
                yield film
        elif name == "Viewer":
            pytest.importorskip("viser")
            viewer = Viewer(model, port=0)
            try:
                yield viewer
            finally:
                viewer.close()
        elif name == "Recorder":
            with render.Recorder(self.folder / "other.nsr", model) as recorder:
                yield recorder
        else:
            yield {
                "Actuators": self.actuators,
                "ActuatedSolver": lambda: ActuatedSolver(
                    newtonsim.FeatherstoneSolver(model), self.actuators()
                ),
                "Camera": lambda: render.Camera(model, 8, 8, pose=eye),
                "Controller": lambda: optimize.Controller(optimize.CEM(self.problem)),
                "FileControls": lambda: FileControls(
                    parse_mjcf(NO_ACTUATORS, newtonsim.ModelBuilder()), model
                ),
                "Dynamics": lambda: dynamics.Dynamics(model),
                "Linearizer": lambda: diff.Linearizer(model, newtonsim.FeatherstoneSolver(model), 1e-3),
                "Model": lambda: model,
                "Pictures": lambda: render.Pictures(model, width=8, height=8),
                "Problem": lambda: self.problem,
                "Recording": lambda: render.Recording(self.recording),
                "Rollout": lambda: self.rollout,
                "SceneQuery": lambda: newtonsim.SceneQuery(model),
                "SimRendererOpenGL": lambda: newtonsim.utils.SimRendererOpenGL(model, "test", headless=True),
                "SimRendererUsd": lambda: newtonsim.utils.SimRendererUsd(
                    model, str(self.folder / "scene.usda")
                ),
                "Simulator": lambda: newtonsim.Simulator(model, newtonsim.XPBDSolver(model), 1e-3),
                "State": model.state,
            }[name]()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, device: str) -> Large:
    return Large(tmp_path_factory.mktemp("foreign"), device)


@pytest.mark.parametrize("door", sorted(doors()))
def test_arrays_of_a_smaller_model_are_refused(door: str, large: Large):
    function, taken = doors()[door]
    name, _, method = door.rpartition(".")
    for parameter in taken:
        arguments = large.arguments()
        if "mj_data" in inspect.signature(function).parameters:
            arguments["mj_data"] = solvers.MuJoCoSolver.convert_to_mjc(large.model)[3]
        arguments = {p: arguments[p] for p in _required(function) | {parameter}}
        if door == "Problem.follow":
            arguments["controls"] = np.zeros(6)
        arguments[parameter] = large.foreign(parameter)
        if not name or isinstance(inspect.getattr_static(_class_of(name), method), staticmethod):
            with pytest.raises(ModelError, match="expected"):
                function(**arguments)
            continue
        with _unless_missing(), large.owner(name) as owner, pytest.raises(ModelError, match="expected"):
            getattr(owner, method)(**arguments)


@pytest.mark.parametrize("door", sorted(doors(ARRAYS)))
def test_shorter_arrays_are_refused(door: str, large: Large):
    """Every parameter that is a Warp array, with one entry less than there has to be."""
    function, taken = doors(ARRAYS)[door]
    name, _, method = door.rpartition(".")
    for parameter in taken:
        arguments = {key: large.arguments()[key] for key in _required(function) - {parameter}}
        if not name:
            with pytest.raises(NewtonsimError, match="expected"):
                function(**arguments, **{parameter: large.shorter(parameter)})
            continue
        with _unless_missing(), large.owner(name) as owner:
            if hasattr(owner, "contact_forces"):
                owner.step(large.model, large.model.state(), large.model.state(), None, None, 1e-3)
            right = getattr(owner, method)(**arguments) if parameter == "out" else None
            wrong = large.shorter(parameter) if right is None else _shorter(right)
            with pytest.raises(NewtonsimError, match="expected"):
                getattr(owner, method)(**arguments, **{parameter: wrong})


def test_no_parameter_hides_from_the_doors():
    """What is named like an array of a model says its type, so that the tests above find it."""
    known = {
        (key, name)
        for found in (doors(), doors(ARRAYS))
        for key, (_, names) in found.items()
        for name in names
    }
    pattern, others = PLAIN_NUMBERS
    for key, function in functions():
        for name in inspect.signature(function).parameters:
            if LIKE_ARRAYS.match(name) and key not in others and not pattern.search(key):
                assert (key, name) in known, f"{key}: {name}"


def test_the_doors_are_found_by_themselves():
    """In all packages that export something, those that came last among them."""
    assert {"newtonsim.actuators", "newtonsim.fidelity", "newtonsim.envs.terms"} <= set(PACKAGES)
    assert {"Viewer.update", "ActuatedSolver.step", "SHAC.__call__", "FDDP.solve"} <= set(doors())


def _no_loss(state: newtonsim.State, losses: wp.array) -> None:
    pass


def test_what_fits_is_looked_at_again_after_an_array_was_replaced(large: Large):
    model, state = large.model, large.model.state()
    model.check_state(state)
    state.joint_q = wp.zeros(5, dtype=float, device=model.device)
    with pytest.raises(ModelError, match=r"joint_q: expected \(24,\), got \(5,\)"):
        model.check_state(state)
    state.joint_q = wp.zeros(24, dtype=wp.int32, device=model.device)
    with pytest.raises(ModelError, match="joint_q: expected float32, got int32"):
        model.check_state(state)
    state.joint_q = None
    with pytest.raises(ModelError, match="joint_q: expected"):
        model.check_state(state)
    with pytest.raises(ModelError, match="joint_q: expected a Warp array, got a ndarray"):
        state.joint_q = np.zeros(24)
    state.joint_q = wp.zeros(24, dtype=float, device=model.device)
    model.check_state(state)
    with pytest.raises(ModelError):
        large.small.check_state(state)


def test_arrays_of_a_model_keep_their_shape(device):
    """Each array that has entries refuses a shorter one, one of another type, None and NumPy; and stays."""
    model = builder(3).finalize(device=device)
    holders = [(model, name) for name, value in vars(model).items() if isinstance(value, wp.array)]
    holders += [(model.shape_materials, name) for name in model.shape_materials._cls.vars]
    holders += [(model.shape_geo, name) for name in model.shape_geo._cls.vars]
    refused = 0
    for holder, name in holders:
        before = getattr(holder, name)
        if not before.size or name in ("shape_contact_pairs", "shape_ground_contact_pairs"):
            continue
        other = wp.vec2 if before.dtype is not wp.vec2 else wp.vec3
        wrong = [
            wp.zeros(before.size + 1, dtype=before.dtype, device=device),
            wp.zeros(before.shape, dtype=other, device=device),
            None,
            before.numpy(),
        ]
        for value in wrong:
            with pytest.raises(ModelError, match=f"{name}: expected"):
                setattr(holder, name, value)
        assert getattr(holder, name) is before
        setattr(holder, name, wp.clone(before))
        refused += 1
    assert refused > 50
    for struct in ("shape_materials", "shape_geo"):
        with pytest.raises(ModelError, match=f"{struct}.*expected"):
            setattr(model, struct, getattr(builder(2).finalize(device=device), struct))


def test_contacts_from_before_the_plan_was_forgotten_are_refused(device):
    model = builder(2).finalize(device=device)
    contacts, solver = model.contact(), newtonsim.FeatherstoneSolver(model)
    newtonsim.collide(model, model.state(), contacts)
    model.rigid_contact_max_per_world = 1
    model.forget()
    with pytest.raises(ModelError, match="contacts"):
        newtonsim.collide(model, model.state(), contacts)
    with pytest.raises(ModelError, match="contacts"):
        solver.step(model, model.state(), model.state(), None, None, 1e-3)


@pytest.mark.parametrize("solver", ["FeatherstoneSolver", "SemiImplicitSolver", "XPBDSolver", "MuJoCoSolver"])
def test_masks_of_other_lengths_are_refused(large: Large, solver: str):
    worlds = large.model.world_count
    with large.owner(solver) as owner:
        for mask in (np.ones(worlds, bool), wp.zeros(worlds - 1, dtype=bool), wp.zeros(worlds, dtype=int)):
            with pytest.raises(ModelError, match="world_mask: expected"):
                owner.reset(None, mask)


def _shorter(right: Any) -> Any:
    if isinstance(right, tuple):
        return tuple(map(_shorter, right))
    size = right.shape[0] - 1 if right.shape[0] else 1
    return wp.zeros((size, *right.shape[1:]), dtype=right.dtype, device=right.device)


def _required(function: Any) -> set[str]:
    parameters = inspect.signature(function).parameters.items()
    return {n for n, p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD and n != "self"}


def _class_of(name: str) -> type:
    return next(
        thing for package in PACKAGES if (thing := getattr(importlib.import_module(package), name, None))
    )


@contextlib.contextmanager
def _unless_missing() -> Iterator[None]:
    try:
        yield
    except newtonsim.RendererUnavailableError as error:
        pytest.skip(str(error))
