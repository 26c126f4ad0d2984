"""A wheel of compiled kernels spares a fresh machine the compiling, or is left alone with one line."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import zipfile

import build_kernels_wheel
import pytest
import warp as wp

from newtonsim.runtime import kernel_sources, kernels_wheel

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="looks at the CPU as Linux on x86-64 does",
)

STEP = """
import warp as wp
wp.config.log_level = wp.LOG_ERROR
import warp._src.build as build
import newtonsim
builds, build_cpu = [], build.build_cpu
build.build_cpu = lambda path, *args, **options: (builds.append(path), build_cpu(path, *args, **options))
builder = newtonsim.ModelBuilder()
link = builder.add_body()
builder.add_shape_sphere(link, radius=0.1)
builder.add_joint_revolute(-1, link, axis=(0, 0, 1))
model = builder.finalize("cpu", requires_grad={gradients})
state = model.state()
joint_q = wp.array([0.5], dtype=float, device="cpu", requires_grad={gradients})
tape = wp.Tape()
with tape if {gradients} else wp.ScopedDevice("cpu"):
    newtonsim.eval_fk(model, joint_q, state.joint_qd, None, state)
if {gradients}:
    seed = wp.zeros_like(state.body_q)
    seed.fill_(wp.transform(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    tape.backward(grads={{state.body_q: seed}})
    print(len(builds), *joint_q.grad.numpy())
else:
    print(len(builds), *state.body_q.numpy()[0, 5:])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Folder with an installed wheel of the kernel files of forward kinematics, there and back."""
    compiled, dist, site = (tmp_path_factory.mktemp(name) for name in ("compiled", "dist", "site"))
    code = (
        "import pathlib, sys, build_kernels_wheel as build; compiled, dist = map(pathlib.Path, sys.argv[1:]);"
        "names = ['forward_kinematics', 'adjoint.poses', 'adjoint.motion'];"
        "index = build.compile_all([f'newtonsim.kernels.trees.{name}' for name in names], compiled);"
        "print(build.write_wheel(dist, compiled, index))"
    )
    result = start("-c", code, str(compiled), str(dist), path=[os.path.dirname(build_kernels_wheel.__file__)])
    with zipfile.ZipFile(result.stdout.split()[-1]) as archive:
        archive.extractall(site)
    return site


def start(*arguments: str, path: list[str], cache: pathlib.Path | None = None) -> subprocess.CompletedProcess:
    """Run Python with more folders to import from, and with a kernel cache of its own.

    Warp's headers are there as the tests have read them: Clang takes two seconds for them.
    """
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = os.pathsep.join([*path, environment.get("PYTHONPATH", "")])
    if cache is not None:
        environment["WARP_CACHE_PATH"] = str(cache)
        kept = pathlib.Path(wp.config.kernel_cache_dir)
        for headers in kept.glob("wp_newtonsim_headers_*"):
            shutil.copytree(headers, cache / kept.name / headers.name, dirs_exist_ok=True)
    result = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return result


def first_step(
    site: pathlib.Path, cache: pathlib.Path, gradients: bool = False
) -> tuple[list[float], list[str]]:
    """Number of modules compiled and results of a step on a fresh machine; what newtonsim says."""
    result = start("-c", STEP.format(gradients=gradients), path=[str(site)], cache=cache)
    said = [line for line in result.stderr.splitlines() if line.startswith("newtonsim:")]
    return [float(word) for word in result.stdout.split()], said


HALF_TURN = (0.247404, 0.968912)
"""Sine and cosine of half the joint's angle, 0.5 rad: z and w of the link's quaternion."""


def test_nothing_is_compiled(wheel: pathlib.Path, tmp_path: pathlib.Path):
    (builds, *turn), said = first_step(wheel, tmp_path)
    assert builds == 0
    assert turn == pytest.approx(HALF_TURN, abs=1e-6)
    assert said == []


def test_no_gradient_is_compiled(wheel: pathlib.Path, tmp_path: pathlib.Path):
    (builds, slope), _ = first_step(wheel, tmp_path, gradients=True)
    assert builds == 0
    assert slope == pytest.approx(HALF_TURN[1] / 2, abs=1e-6)  # of sin(q / 2)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"fingerprint": "0"}, "it was built from other kernels, those of newtonsim 0.1.0"),
        ({"warp": "1.18.0"}, f"it is for Warp 1.18.0, but this is {wp.__version__}"),
        ({"features": ["avx9"]}, "this CPU lacks avx9"),
        ({"machine": {"system": "Plan 9"}}, "it is for another machine"),
        (None, "its index cannot be read"),
    ],
    ids=["kernels", "warp", "cpu", "system", "broken"],
)
def test_a_wheel_that_does_not_fit_is_left_alone_with_one_line(
    wheel, tmp_path: pathlib.Path, change, line: str
):
    site = tmp_path / "site" / kernels_wheel.PACKAGE
    site.mkdir(parents=True)
    index = json.loads((wheel / kernels_wheel.PACKAGE / "index.json").read_text())
    (site / "index.json").write_text("{" if change is None else json.dumps(index | change))
    (builds, *turn), said = first_step(site.parent, tmp_path)
    assert builds == 1
    assert turn == pytest.approx(HALF_TURN, abs=1e-6)
    (only,) = said
    assert line in only


def test_a_module_that_the_wheel_has_otherwise_is_compiled(wheel: pathlib.Path, tmp_path: pathlib.Path):
    """Files of the wheel that are gone or broken: as if it had not that module."""
    site = tmp_path / "site"
    site.mkdir()
    package = site / kernels_wheel.PACKAGE
    package.mkdir()
    text = (wheel / kernels_wheel.PACKAGE / "index.json").read_text()
    (package / "index.json").write_text(text)
    (builds, *turn), said = first_step(site, tmp_path)
    assert builds == 1
    assert turn == pytest.approx(HALF_TURN, abs=1e-6)
    (only,) = said
    assert "trees.forward_kinematics cannot be loaded" in only


def test_what_is_built_is_found_by_version_and_content(wheel: pathlib.Path):
    index = json.loads((wheel / kernels_wheel.PACKAGE / "index.json").read_text())
    assert index["fingerprint"] == kernel_sources.fingerprint()
    assert len(index["records"]) == 4  # there, with and without derivatives by Warp, and two ways back
    names = {one["binary"] for record in index["records"].values() for one in record["binaries"]}
    assert names <= {path.name for path in (wheel / kernels_wheel.PACKAGE / "compiled").iterdir()}


def test_machine_code_is_for_gpus_of_its_kind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernels_wheel, "_folder", lambda: "wheel")
    archs = (None, 80, 86, 90)
    record = {"binaries": [{"arch": arch, "binary": f"{arch}.cubin", "meta": "a.meta"} for arch in archs]}

    class Device:
        def __init__(self, arch: int | None):
            self.arch, self.is_cpu = arch, arch is None

    def found(own: int | None) -> str:
        compiled = kernels_wheel.compiled(record, Device(own))
        return "" if compiled is None else compiled.binary.stem

    assert [found(own) for own in (None, 80, 86, 89, 90, 75, 100)] == ["None", "80", "86", "86", "90", "", ""]


def test_machine_code_needs_no_gpu(tmp_path: pathlib.Path):
    code = (
        "import pathlib, sys, build_kernels_wheel as build; names = ['newtonsim.kernels.trees.energy'];"
        "print(build.compile_all(names, pathlib.Path(sys.argv[1]), (90,))['records'])"
    )
    result = start("-c", code, str(tmp_path), path=[os.path.dirname(build_kernels_wheel.__file__)])
    assert "sm90.cubin" in result.stdout
    assert all(path.read_bytes()[:4] == b"\x7fELF" for path in tmp_path.glob("*.cubin"))
    assert {one.suffixes[-2] for one in tmp_path.glob("*.cubin")} == {".sm90"}
