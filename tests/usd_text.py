"""Stages written as text, and what they become."""

import warnings

import numpy as np
from pxr import Sdf, Usd

import newtonsim
from newtonsim.importers import parse_usd

BODY = "PhysicsRigidBodyAPI"
MASS = "PhysicsMassAPI"
SOLID = "PhysicsCollisionAPI"
MESH = "PhysicsMeshCollisionAPI"
ROOT = "PhysicsArticulationRootAPI"
OPS = {
    "translate": "double3",
    "scale": "float3",
    "rotateXYZ": "float3",
    "orient": "quatf",
    "transform": "matrix4d",
}


def prim(kind: str, name: str, *schemas: str, inside: str = "", meta: str = "", word: str = "def") -> str:
    """Text of a prim."""
    applied = ", ".join(f'"{schema}"' for schema in schemas)
    applied = f"prepend apiSchemas = [{applied}]\n" if schemas else ""
    return f'{word} {kind} "{name}" (\n{applied}{meta}\n) {{\n{inside}\n}}\n'


def ops(**values: object) -> str:
    """Text of the transform of a prim; operations in the order of the arguments."""
    lines = [f"{OPS[name]} xformOp:{name} = {value}" for name, value in values.items()]
    order = ", ".join(f'"xformOp:{name}"' for name in values)
    return "\n".join([*lines, f"uniform token[] xformOpOrder = [{order}]\n"])


def stage_of(text: str, up: str = "Z", meters: float = 1.0, kilograms: float = 1.0) -> Usd.Stage:
    """A stage in memory."""
    head = f'#usda 1.0\n(\nupAxis = "{up}"\nmetersPerUnit = {meters!r}\nkilogramsPerUnit = {kilograms!r}\n)\n'
    layer = Sdf.Layer.CreateAnonymous(".usda")
    assert layer.ImportFromString(head + text)
    stage = Usd.Stage.Open(layer)
    stage.layer = layer  # lives as long as the stage
    return stage


def read(text: str | Usd.Stage, up: str = "Z", meters: float = 1.0, kilograms: float = 1.0, **options):
    """Builder with z up, and result, of a stage; what is not modelled stays in the report."""
    builder = options.pop("builder", None) or newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    stage = stage_of(text, up, meters, kilograms) if isinstance(text, str) else text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", newtonsim.UnsupportedElementWarning)
        return builder, parse_usd(stage, builder, **options)


def remarks(result: dict, kind: str, path: str) -> list[str]:
    """Messages of one kind about one prim."""
    return [entry.message for entry in result["report"].of_kind(kind) if entry.element == path]


def run(builder: newtonsim.ModelBuilder, steps: int, dt: float = 1.0 / 240.0):
    """Model and state after some steps of the main solver."""
    from newtonsim.solvers import FeatherstoneSolver

    model = builder.finalize("cpu")
    solver, state, control = FeatherstoneSolver(model), model.state(), model.control()
    for _ in range(steps):
        solver.step(model, state, state, control, None, dt)
    assert np.isfinite(state.body_q.numpy()).all()
    return model, state
