"""Actuators: what turns a command into the effort on a joint, see `ActuatedSolver`."""

from newtonsim.actuators.activation import Activation, tendon_actuators
from newtonsim.actuators.actuators import Actuators
from newtonsim.actuators.general import General, general_actuators
from newtonsim.actuators.imported import FileControls, solver_from_report
from newtonsim.actuators.models import PD, PID, Actuator, DCMotor, Delay, Drive, Effort, MotorCurve, Network
from newtonsim.actuators.networks import Layer, Lstm, LstmLayer, Mlp
from newtonsim.actuators.onnx_files import load_onnx
from newtonsim.actuators.operational_space import OperationalSpaceControl
from newtonsim.actuators.patterns import AxisOf
from newtonsim.actuators.solver import ActuatedSolver

__all__ = [
    "PD",
    "PID",
    "Activation",
    "ActuatedSolver",
    "Actuator",
    "Actuators",
    "AxisOf",
    "DCMotor",
    "Delay",
    "Drive",
    "Effort",
    "FileControls",
    "General",
    "Layer",
    "Lstm",
    "LstmLayer",
    "Mlp",
    "MotorCurve",
    "Network",
    "OperationalSpaceControl",
    "general_actuators",
    "load_onnx",
    "solver_from_report",
    "tendon_actuators",
]
