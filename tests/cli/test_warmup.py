"""Kernels are compiled once, only when they are needed, and `newtonsim warmup` leaves nothing to compile."""

import os
import re
import subprocess
import sys
import textwrap

import pytest
import warp as wp

from newtonsim.examples import asset_path


def run(code: str, cache: str) -> list[str]:
    """Run Python code in a process with its own kernel cache; return the lines that it prints.

    The code finds a list `builds` of the kernel files that were compiled so far. What the tests have compiled
    before is copied from their cache, and what they have not goes there, as the compiler itself is not in
    question.
    """
    prelude = f"""
        import atexit, contextlib, os, shutil, time
        import warp as wp
        wp.config.log_level = wp.LOG_ERROR
        import warp._src.build as build
        builds, build_cpu = [], build.build_cpu
        def counted(path, source, **options):
            name = source.replace(os.sep, "/").rpartition("/")[2]
            builds.append(name.partition("newtonsim.kernels.")[2].rpartition("_")[0])
            folder = os.path.join({wp.config.kernel_cache_dir!r}, name.removesuffix(".cpp"))
            built = os.path.join(folder, os.path.basename(path))
            if os.path.exists(built):
                time.sleep(0.1)  # there is to be progress to tell of
                shutil.copyfile(built, path)
            else:
                build_cpu(path, source, **options)
                atexit.register(hand_on, folder)
        def hand_on(folder):
            made = os.path.join(wp.config.kernel_cache_dir, os.path.basename(folder))
            copy = f"{{folder}}_p{{os.getpid()}}"
            shutil.copytree(made, copy)
            with contextlib.suppress(OSError):  # others have compiled it meanwhile
                os.rename(copy, folder)
            shutil.rmtree(copy, ignore_errors=True)
        build.build_cpu = counted
    """
    environment = {**os.environ, "WARP_CACHE_PATH": cache, "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return (result.stdout + result.stderr).splitlines()


COMMAND = """
    from newtonsim.cli.main import main
    status = main({arguments!r})
    print("status", status, "builds", *sorted(builds))
"""


def command(cache: str, *arguments: str) -> tuple[list[str], list[str]]:
    """Run a command; return its lines and the sorted names of what it compiled."""
    lines = run(COMMAND.format(arguments=list(arguments)), cache)
    last = next(line for line in lines if line.startswith("status "))
    assert last.startswith("status 0 "), lines
    return lines, last.split()[3:]


DIFFERENTIABLE = {
    "trees.forward_kinematics",
    "steps.integrate",
    "trees.joint_forces",
    "trees.middle_velocity",
    "trees.rnea",
}
"""Kernel files that have backward code."""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str], list[str]]:
    """Kernel cache after `newtonsim warmup` of one robot; its lines, and what it compiled."""
    cache = str(tmp_path_factory.mktemp("cache"))
    return cache, *command(cache, "warmup", str(asset_path("cartpole.urdf")), "--device", "cpu")


@pytest.mark.slow
def test_warmup_compiles_what_the_robot_needs_once(warm):
    cache, lines, builds = warm
    assert len(builds) == len(set(builds))
    assert {"trees.forward_kinematics", "constraints.solve.solve", "trees.tree_smooth"} <= set(builds)
    # nothing about it is a mesh or asks for rays
    unused = {
        "collision.families.mesh",
        "collision.families.sdf",
        "queries.closest_points",
        "queries.rays",
        "particles.xpbd.particles",
    }
    assert not unused & set(builds)
    text = "\n".join(lines)
    assert f"compiled {len(builds)} kernel modules for cpu" in text
    assert re.search(rf"kernel cache: {re.escape(cache)}\S*, [1-9]\d* MB", text)


@pytest.mark.slow
def test_progress_names_what_is_being_compiled(warm):
    _, lines, builds = warm
    progress = [line for line in lines if line.startswith("compiling ")]
    assert progress
    for line in progress:
        done, now = re.fullmatch(
            r"compiling \d+ kernel modules for cpu: (\d+) done, \d+ s, now (.*)", line
        ).groups()
        assert int(done) < len(builds)
        assert set(now.split(", ")) <= set(builds)


@pytest.mark.slow
def test_nothing_is_left_to_compile_for_a_run(warm):
    lines, builds = command(
        warm[0], "run", str(asset_path("cartpole.urdf")), "--device", "cpu", "--envs", "3", "--seconds", ".1"
    )
    assert builds == []
    assert not any(line.startswith("compil") for line in lines)


@pytest.mark.slow
def test_nothing_is_left_to_compile_for_a_warmup(warm):
    lines, builds = command(warm[0], "warmup", str(asset_path("cartpole.urdf")), "--device", "cpu")
    assert builds == []
    assert "nothing to compile for cpu: all kernels are in the cache" in lines


ROLLOUT = """
    import newtonsim, numpy as np
    from newtonsim.examples import asset_path
    from newtonsim.importers import parse_urdf
    def model(requires_grad):
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        parse_urdf(str(asset_path("cartpole.urdf")), builder, floating=False)
        builder.joint_q[:] = [0.1, 0.3]
        builder.joint_qd[:] = [0.5, -0.7]
        return builder.finalize("cpu", requires_grad=requires_grad)
    def rollout(model):
        solver = newtonsim.FeatherstoneSolver(model)
        states = [model.state() for _ in range(6)]
        for before, after in zip(states, states[1:]):
            solver.step(model, before, after, None, None, 0.01)
        return states[-1].joint_q.numpy(), states[-1].body_q.numpy()
"""


@pytest.mark.slow
def test_backward_code_comes_when_it_is_asked_for_and_changes_no_bit(warm):
    """Only what has a gradient is compiled again; poses of a rollout stay the same to the last bit."""
    code = (
        ROLLOUT
        + """
    plain = rollout(model(False))
    before = list(builds)
    graded = rollout(model(True))
    m = model(True)
    solver, begin, end = newtonsim.FeatherstoneSolver(m), m.state(), m.state()
    with wp.Tape() as tape:
        solver.step(m, begin, end, None, None, 0.01)
    tape.backward(grads={end.joint_q: wp.ones_like(end.joint_q)})
    again = rollout(model(False))
    same = all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(plain, graded, again))
    print(same, "before", *before, "after", *sorted(builds[len(before):]))
    """
    )
    same, _, *builds = run(code, warm[0])[0].split()
    assert same == "True"
    before, after = builds[: builds.index("after")], builds[builds.index("after") + 1 :]
    assert before == []
    assert {"trees.joint_forces", "trees.rnea"} <= set(after)
    # of what was there before
    assert set(after) & set(warm[2]) <= DIFFERENTIABLE


@pytest.mark.slow
def test_a_tape_gets_its_gradient_after_forward_only_use(warm):
    """d(height of the pole)/d(angle) by a tape, after the same kernel ran without; against differences."""
    code = (
        ROLLOUT
        + """
    from newtonsim import eval_fk
    m = model(False)
    state = m.state()
    def height(q):
        angles = wp.array(q, dtype=float, device="cpu")
        eval_fk(m, angles, state.joint_qd, None, state)
        return float(state.body_q.numpy()[-1, 0])
    q = state.joint_q.numpy().copy()
    differences = [(height(q + d) - height(q - d)) / 2e-2 for d in 1e-2 * np.eye(len(q), dtype=np.float32)]
    graph_source = wp.array(q, dtype=float, device="cpu")
    with wp.ScopedCapture(device="cpu") as capture:
        eval_fk(m, graph_source, state.joint_qd, None, state)
    angles = wp.array(q, dtype=float, device="cpu", requires_grad=True)
    out = m.state(requires_grad=True)
    with wp.Tape() as tape:
        eval_fk(m, angles, out.joint_qd, None, out)
    seed = np.zeros((m.body_count, 7), dtype=np.float32)
    seed[-1, 0] = 1.0
    tape.backward(grads={out.body_q: wp.array(seed, dtype=wp.transform, device="cpu")})
    # a graph that was captured before keeps its code
    state.body_q.zero_()
    wp.capture_launch(capture.graph)
    same = np.array_equal(state.body_q.numpy(), out.body_q.numpy())
    print(*differences, *angles.grad.numpy(), same)
    """
    )
    *values, same = run(code, warm[0])[0].split()
    differences, gradient = [float(v) for v in values[:2]], [float(v) for v in values[2:]]
    assert abs(differences[0]) > 0.1
    assert gradient == pytest.approx(differences, abs=2e-3)
    assert same == "True"


@pytest.mark.skipif(os.name != "posix", reason="kernel files are begun in the background only there")
def test_compiling_begins_before_the_robot_is_read(tmp_path):
    lines = run(
        """
        import newtonsim.cli.run as command
        from newtonsim.cli.main import main
        from newtonsim.errors import NewtonsimError
        def load_robot(*arguments, **options):
            end = time.monotonic() + 60.0
            while not builds and time.monotonic() < end:
                time.sleep(0.01)
            raise NewtonsimError("no robot")
        command.load_robot = load_robot
        print(main(["run", "--device", "cpu"]), *builds)
        """,
        str(tmp_path),
    )
    assert lines[0] == "2 steps.replay"
