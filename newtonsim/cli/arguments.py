"""The arguments of every command."""

from __future__ import annotations

import argparse
from typing import Any

from newtonsim import __version__
from newtonsim.cli.numbers import natural_int, positive_count, positive_float, positive_int
from newtonsim.cli.parser import Parser

SHELLS = ("bash", "zsh", "tcsh")
SOLVERS = ("featherstone",)
_OPTION = "option of the environment, such as healthy_reward=0.5 or randomise={'mass':(0.8,1.2)}"
_CHANGED = "option of the environment that differs from training, such as robot=moved/robot.urdf"


def build_parser() -> Parser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="newtonsim", description="GPU-batched, differentiable physics simulation for robots."
    )
    parser.add_argument("--version", action="version", version=f"newtonsim {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parser.commands = commands.choices
    _add_run(commands.add_parser("run", help="let many copies of a robot settle on the ground"))
    _add_view(commands.add_parser("view", help="show a robot or a recording in the web browser"))
    _add_info(commands.add_parser("info", help="print the bodies and joints of a robot file"))
    _add_warmup(commands.add_parser("warmup", help="compile kernels in advance, so that first runs are fast"))
    _add_train(commands.add_parser("train", help="train a policy that controls the robot of an environment"))
    _add_play(commands.add_parser("play", help="run a trained policy"))
    _add_transfer(commands.add_parser("transfer", help="run a policy in another physics engine, and compare"))
    _add_pybullet(commands.add_parser("pybullet", help="run a script written for PyBullet, unchanged"))
    _add_pybullet_server(
        commands.add_parser("pybullet-server", help="serve a world to PyBullet scripts in other processes")
    )
    _add_doctor(commands.add_parser("doctor", help="report what works on this machine"))
    _add_completion(commands.add_parser("completion", help="print a shell completion script"))
    return parser


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim doctor``."""
    parser.description = (
        "Print versions, devices, the contents of the kernel cache, and which extras are installed or "
        "missing, with their purpose."
    )


def _add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim completion``."""
    parser.description = (
        "Print a shell completion script for commands, options and files (extra 'completion'), for example "
        "`newtonsim completion bash > ~/.local/share/bash-completion/completions/newtonsim`."
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=" or ".join(SHELLS))


def _add_pybullet(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim pybullet``."""
    parser.description = (
        "Run a script or a module with newtonsim under the names pybullet, pybullet_data and pybullet_utils. "
        "Instead of a window, connect(GUI) opens a web page (extra 'view'). With --compare, the script runs "
        "under PyBullet and newtonsim in lockstep: every call is made in both, and the script gets "
        "PyBullet's answers. At the end it prints the first call whose answers differ, and the time that "
        "each kind of call took under both."
    )
    parser.add_argument(
        "--data",
        choices=("own", "real"),
        help="models that pybullet_data provides: those of newtonsim, or those of the real package "
        "(default: own, or the value of the environment variable NEWTONSIM_PYBULLET_DATA)",
    )
    parser.add_argument(
        "--compare", action="store_true", help="also run under PyBullet, which must be installed, and compare"
    )
    parser.add_argument(
        "--tolerance",
        type=positive_float,
        nargs=2,
        default=(1e-4, 1e-3),
        metavar=("ABSOLUTE", "RELATIVE"),
        help="with --compare: absolute tolerance, in the units of the numbers, and tolerance relative to "
        "the vector that contains them (default: 1e-4 1e-3)",
    )
    parser.add_argument(
        "--steps", type=positive_int, metavar="N", help="with --compare: end the script after N steps"
    )
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE",
        help="run a module instead of a script",
    )
    parser.add_argument("script", nargs="?", metavar="SCRIPT.py", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")


def _add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim run``."""
    parser.description = (
        "Load a robot, place many copies in different poses above the ground, and simulate them. "
        "Position drives hold the keyframe 'home' (or the first one, or the zero pose); if the file has no "
        "actuators, its joints get drives."
    )
    _add_file(parser, "a quadruped that ships with newtonsim")
    parser.add_argument(
        "--envs", type=positive_int, default=1024, metavar="N", help="number of copies (default: 1024)"
    )
    parser.add_argument(
        "--seconds", type=positive_float, default=5.0, metavar="S", help="simulated time (default: 5)"
    )
    parser.add_argument(
        "--dt", type=positive_float, metavar="S", help="time step (default: that of the file, or 1/240)"
    )
    parser.add_argument(
        "--substeps",
        type=positive_int,
        default=1,
        metavar="N",
        help="solver steps per time step (default: 1)",
    )
    parser.add_argument("--solver", choices=SOLVERS, default="featherstone", help="default: featherstone")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda:0, ... (default: the first GPU, or cpu)")
    parser.add_argument(
        "--seed", type=natural_int, default=0, metavar="N", help="seed of the start poses (default: 0)"
    )
    parser.add_argument(
        "--record",
        metavar="OUT.nsr",
        help="record the first 64 worlds, 30 times a second, for newtonsim view and render.Recording",
    )
    parser.add_argument(
        "--usd", metavar="OUT", help="write an animation of the first 64 worlds (.usd, .usda)"
    )
    parser.add_argument("--video", metavar="OUT.mp4", help="write a video of the first 4 worlds (.mp4, .gif)")
    parser.add_argument(
        "--plot",
        metavar="OUT.png",
        help="plot heights, joint positions, energies and contact forces of the first 64 worlds",
    )
    parser.add_argument(
        "--snapshot", metavar="OUT.png", help="write a picture of 9 worlds in their last state"
    )
    parser.add_argument(
        "--quality",
        choices=("plain", "fine"),
        default="plain",
        help="quality of pictures and videos; fine has soft shadows and takes about 20 times as long "
        "(default: plain)",
    )
    parser.add_argument("--json", metavar="OUT", help="write all figures as JSON")
    parser.add_argument(
        "--view", action="store_true", help="show the run in the web browser, in real time, until Ctrl-C"
    )
    _add_page(parser)


def _add_view(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim view``."""
    parser.description = (
        "Show a robot on a web page and simulate it in real time; drag bodies with the mouse, and move "
        "joints with sliders. A recording is played instead."
    )
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="URDF, MJCF, SDF or USD file, or a recording (default: a quadruped that ships with newtonsim)",
    )
    _add_base(parser)
    parser.add_argument(
        "--worlds", type=positive_int, default=1, metavar="N", help="number of copies (default: 1)"
    )
    parser.add_argument(
        "--seed",
        type=natural_int,
        default=0,
        metavar="N",
        help="seed of the start poses of copies (default: 0)",
    )
    parser.add_argument(
        "--dt", type=positive_float, metavar="S", help="time step (default: that of the file, or 1/240)"
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda:0, ... (default: the first GPU, or cpu)")
    parser.add_argument(
        "--paused",
        action=argparse.BooleanOptionalAction,
        help="wait until Play is pressed (default: robots wait, recordings play)",
    )
    _add_page(parser)


def _add_train(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim train``."""
    parser.description = (
        "Train a policy in many worlds at once, by proximal policy optimisation unless --algorithm says "
        "otherwise (extra 'learn'). The folder "
        "gets checkpoints, the learning curve (curve.csv and TensorBoard), the best policy (policy.onnx) "
        "and a video of it. Running the same command again continues a run that was stopped or killed."
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help="environment, such as CartPole, Hopper or Ant, or module:NAME for one registered by a module; "
        "for shac module:FUNCTION of a function that returns an optimize.Problem",
    )
    parser.add_argument(
        "--algorithm",
        choices=("ppo", "sac", "shac"),
        default="ppo",
        help="ppo (the default); sac, soft actor-critic of stable-baselines3, which needs fewer samples and "
        "more updates; shac, which follows gradients of the simulation",
    )
    parser.add_argument(
        "--num-envs",
        type=positive_int,
        metavar="N",
        help="number of worlds (default: depends on the environment)",
    )
    parser.add_argument(
        "--samples",
        type=positive_count,
        metavar="N",
        help="samples to learn from, such as 2e6 (default: depends on the environment)",
    )
    parser.add_argument(
        "--seconds",
        type=positive_float,
        metavar="S",
        help="stop after this training time, that of earlier sessions included",
    )
    parser.add_argument("--seed", type=natural_int, default=0, metavar="N", help="random seed (default: 0)")
    parser.add_argument("--folder", metavar="DIR", help="folder of the run (default: runs/NAME-seedN)")
    parser.add_argument(
        "--start",
        metavar="POLICY",
        help="policy to start from, the folder of a run or a policy.onnx; the environment may have more "
        "observations",
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda:0, ... (default: the first GPU, or cpu)")
    _add_option(parser, _OPTION)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="field of newtonsim.learn.Settings, such as gamma=0.995; for sac of SacSettings, for shac an "
        "argument of optimize.SHAC; may be repeated",
    )
    parser.add_argument(
        "--save-every",
        type=positive_float,
        default=30.0,
        metavar="S",
        help="time between checkpoints (default: 30)",
    )
    parser.add_argument(
        "--ray-workers",
        type=positive_int,
        metavar="N",
        help="collect samples in N processes, on all CPUs and GPUs of a Ray cluster (extra 'ray')",
    )
    parser.add_argument(
        "--ray-address",
        metavar="HOST:PORT",
        help="the cluster (default: that of RAY_ADDRESS, or of `ray start` on this machine, or a new one)",
    )
    parser.add_argument(
        "--threads",
        type=positive_int,
        metavar="N",
        help="threads of the physics on the CPU (default: all cores)",
    )
    parser.add_argument("--no-video", action="store_true", help="do not make a video of the best policy")


def _add_play(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim play``."""
    parser.description = (
        "Run a policy in its environment, without noise, and print returns and lengths of episodes; Ctrl-C "
        "ends it early."
    )
    parser.add_argument("policy", metavar="POLICY", help="policy.onnx of newtonsim train, or its folder")
    parser.add_argument(
        "--num-envs",
        type=positive_int,
        default=64,
        metavar="N",
        help="largest number of worlds (default: 64)",
    )
    parser.add_argument(
        "--episodes",
        type=positive_int,
        default=100,
        metavar="N",
        help="smallest number of episodes (default: 100)",
    )
    parser.add_argument(
        "--level",
        type=positive_int,
        metavar="N",
        help="level of the terrain, from 1 (default: as in training)",
    )
    _add_option(parser, _CHANGED)
    parser.add_argument("--seed", type=natural_int, default=0, metavar="N", help="random seed (default: 0)")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda:0, ... (default: the first GPU, or cpu)")
    parser.add_argument("--video", metavar="OUT.mp4", help="write a video of one world (.mp4, .gif)")
    parser.add_argument(
        "--seconds", type=positive_float, default=10.0, metavar="S", help="length of the video (default: 10)"
    )
    parser.add_argument(
        "--view", action="store_true", help="show it in the web browser instead, until Ctrl-C"
    )
    _add_page(parser)


def _add_transfer(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim transfer``."""
    parser.description = (
        "Run a policy, without noise, here and in another physics engine, with the same observations, "
        "actuators and rate of actions, and print returns and tracking errors."
    )
    parser.add_argument("policy", metavar="POLICY", help="policy.onnx of newtonsim train, or its folder")
    parser.add_argument(
        "--to",
        default="mujoco",
        choices=("mujoco", "pybullet"),
        metavar="ENGINE",
        help="mujoco (default) or pybullet",
    )
    parser.add_argument(
        "--seeds", type=natural_int, nargs="+", default=[0, 1, 2], metavar="N", help="seeds (default: 0 1 2)"
    )
    parser.add_argument(
        "--episodes", type=positive_int, default=16, metavar="N", help="episodes for each seed (default: 16)"
    )
    _add_option(parser, _CHANGED)
    parser.add_argument(
        "--contact-time",
        type=positive_float,
        metavar="S",
        help="time constant of MuJoCo's contacts, its solref (default: 0.02, MuJoCo's)",
    )


def _add_option(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the argument for options of an environment."""
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help=f"{text}; may be repeated"
    )


def _add_page(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where the viewer's page is served."""
    page = parser.add_argument_group("viewer")
    page.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on; 0.0.0.0 admits other machines (default: 127.0.0.1)",
    )
    page.add_argument(
        "--port",
        type=natural_int,
        default=8080,
        metavar="N",
        help="port, or the next free one; 0 for any (default: 8080)",
    )
    page.add_argument("--no-browser", action="store_true", help="do not open a browser")
    page.add_argument("--plain", action="store_true", help="no shadows and reflections, for slow machines")


def _add_info(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim info``."""
    parser.description = (
        "Print the tree of bodies and joints of a URDF, MJCF, SDF or USD file, and the parts of it that "
        "were not understood."
    )
    _add_file(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--report",
        action="store_true",
        help="instead, print for each kind of element how many are modelled, approximated, not modelled or "
        "without effect, and why",
    )
    instead.add_argument(
        "--oracle",
        action="store_true",
        help="compare instead with MuJoCo (MJCF) or pinocchio (URDF): masses, M(q), bias forces, frames, and "
        "for MJCF a second of motion without contacts; one line each, with the largest error and where it "
        "is. The exit status is 1 if one differs by more than its tolerance",
    )


def _add_warmup(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim warmup``."""
    parser.description = (
        "Compile kernels into the kernel cache, on all cores. Otherwise they are compiled when they are "
        "first needed, which makes the first run of a robot about ten seconds slower. Name the robots that "
        "will be simulated, or none to compile everything (a minute or two). Kernels stay in the cache "
        "until newtonsim, Warp or the machine changes; the environment variable WARP_CACHE_PATH sets the "
        "location of the cache."
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="URDF, MJCF or SDF files (default: all kernels)"
    )
    parser.add_argument(
        "--all", action="store_true", help="also compile kernels that none of the files needs"
    )
    parser.add_argument("--gradients", action="store_true", help="also compile the code for gradients")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda:0, ... (default: the first GPU, or cpu)")
    _add_base(parser)


def _add_pybullet_server(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``newtonsim pybullet-server``."""
    parser.description = (
        "Serve one world to PyBullet scripts in other processes, which connect with p.connect(p.TCP, host, "
        "port), p.connect(p.UDP, host, port) or p.connect(p.SHARED_MEMORY, key). The world persists when "
        "they disconnect. Clients access files on the server's machine, with the server's permissions."
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="(default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=natural_int, default=6667, metavar="N", help="port, 0 for any free one (default: 6667)"
    )
    parser.add_argument(
        "--shared-memory-key",
        type=int,
        default=12347,
        metavar="N",
        help="key for SHARED_MEMORY connections, -1 for none (default: 12347)",
    )
    parser.add_argument(
        "--folder",
        metavar="PATH",
        help="folder where clients may read and write files, besides the data of packages (default: the "
        "working folder if other machines can reach --host, otherwise anywhere)",
    )
    parser.add_argument(
        "--tls",
        nargs=2,
        metavar=("CERTIFICATE", "KEY"),
        help="PEM files: encrypt connections; clients connect with the option --tls=FILE, the certificate "
        "that they trust",
    )
    parser.add_argument(
        "--num-worlds", type=positive_int, default=1, metavar="N", help="copies of the world (default: 1)"
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda:0, ... (default: cpu with one world)")


def _add_file(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the arguments for the robot file and how its base is held."""
    optional: dict[str, Any] = {"nargs": "?"} if default else {}
    text = "URDF, MJCF, SDF or USD file" + (f" (default: {default})" if default else "")
    parser.add_argument("file", metavar="FILE", help=text, **optional)
    _add_base(parser)


def _add_base(parser: argparse.ArgumentParser) -> None:
    """Add the argument that says how the base of a robot is held."""
    parser.add_argument(
        "--base",
        choices=("auto", "free", "fixed"),
        default="auto",
        help="root of a URDF robot; auto: fixed if the root link is named 'world' or has no mass, else free",
    )
