"""Parameter studies: every candidate once and in order, whoever evaluates it and whatever goes wrong."""

import itertools
import re
import runpy
import sqlite3
import sys
from functools import partial

import numpy as np
import pytest
import sweep_studies
from rooms import ROOT

import newtonsim
from newtonsim.errors import NewtonsimError, SweepError
from newtonsim.studies import sampling

NUMBERS = {"number": np.arange(10)}
CANDIDATES = sampling.grid({"mass": np.linspace(1.0, 5.0, 6), "damping": [0.5, 2.0, 8.0]})


def test_results_are_those_of_their_candidates():
    """Velocity of m dv/dt = -c v by implicit Euler, and the place as the sum of its steps."""
    results = newtonsim.sweep(sweep_studies.Sliders, CANDIDATES, batch=7)
    dt, steps = sweep_studies.Sliders.DT, sweep_studies.Sliders.STEPS
    decay = 1.0 / (1.0 + dt * CANDIDATES["damping"] / CANDIDATES["mass"])
    velocities = decay[:, None] ** np.arange(1, steps + 1)
    np.testing.assert_allclose(results["end"][:, 1], velocities[:, -1], rtol=1e-5)
    np.testing.assert_allclose(results["end"][:, 0], dt * velocities.sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(results["world"], np.arange(18) % 7)


def test_a_batch_is_filled_up_with_its_last_candidate():
    seen = []

    def evaluate(parameters):
        seen.append(parameters["number"].tolist())
        return {"number": parameters["number"]}

    results = newtonsim.sweep(evaluate, NUMBERS, batch=4)
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 9, 9]]
    np.testing.assert_array_equal(results["number"], np.arange(10))
    newtonsim.sweep(evaluate, NUMBERS)
    assert seen[-1] == list(range(10))


@pytest.mark.slow
def test_workers_give_the_same_bits_and_one_that_is_killed_is_replaced(cluster, tmp_path):
    alone = newtonsim.sweep(sweep_studies.Sliders, CANDIDATES, batch=3)
    mortal = partial(sweep_studies.MortalSliders, notes=tmp_path)
    shared = newtonsim.sweep(mortal, CANDIDATES, batch=3, workers=2)
    notes = [path.name.split("-")[0] for path in tmp_path.iterdir()]
    assert notes.count("killed") == 1
    gpus = [path.name.split("-")[2] for path in tmp_path.glob("made*")]
    assert set(gpus) == {"0", "1"}, "each worker sees a GPU of its own"
    assert notes.count("made") == 3  # one model for all batches of a process
    assert notes.count("called") == 6
    assert alone.keys() == shared.keys()
    for name, values in alone.items():
        np.testing.assert_array_equal(shared[name], values)


@pytest.mark.parametrize("workers", [None, 1])
def test_an_error_names_the_batch_and_keeps_the_results(workers, request):
    if workers:
        request.getfixturevalue("cluster")
    with pytest.raises(
        SweepError, match=r"batch 3, candidates 6 to 7 .*ZeroDivisionError: six is not"
    ) as info:
        newtonsim.sweep(sweep_studies.refuses_six, NUMBERS, batch=2, workers=workers)
    error = info.value
    assert error.batch == 3
    np.testing.assert_array_equal(error.parameters["number"], [6, 7])
    assert {0, 1} <= set(error.candidates.tolist()) <= set(range(10)) - {6, 7}
    np.testing.assert_array_equal(error.results["double"], 2 * error.candidates)


def test_a_batch_that_kills_every_worker_is_given_up(cluster):
    with pytest.raises(SweepError, match=r"batch 1, candidates 5 to 9 .*died") as info:
        newtonsim.sweep(sweep_studies.always_dies, NUMBERS, batch=5, workers=1, retries=0)
    np.testing.assert_array_equal(info.value.results["double"], [0, 2, 4, 6, 8])


def test_a_study_that_was_stopped_goes_on(tmp_path):
    path, calls = tmp_path / "study.db", []

    def evaluate(parameters):
        calls.append(int(parameters["number"][0]))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return {"square": parameters["number"] ** 2, "label": parameters["number"].astype("U3")}

    with pytest.raises(KeyboardInterrupt):
        newtonsim.sweep(evaluate, NUMBERS, batch=3, resume=path)
    results = newtonsim.sweep(evaluate, NUMBERS, batch=3, resume=path)
    assert calls == [0, 3, 6, 6, 9]
    np.testing.assert_array_equal(results["square"], np.arange(10) ** 2)
    assert results["label"].tolist() == list("0123456789")
    np.testing.assert_array_equal(
        newtonsim.sweep(evaluate, NUMBERS, batch=3, resume=path)["square"], np.arange(10) ** 2
    )
    assert len(calls) == 5
    for other in ({"number": np.arange(10) + 1}, {"other": np.arange(10)}, {"number": np.arange(10.0)}):
        with pytest.raises(NewtonsimError, match=r"study.db: created with other parameters"):
            newtonsim.sweep(evaluate, other, batch=3, resume=path)
    with pytest.raises(NewtonsimError, match=r"study.db: expected batches of 2, found 3"):
        newtonsim.sweep(evaluate, NUMBERS, batch=2, resume=path)


def test_files_of_others_are_refused_and_left_alone(tmp_path):
    text, base = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("not a database, and longer than the header of one: " + "x" * 100)
    other = sqlite3.connect(base)
    other.execute("CREATE TABLE songs (name TEXT)")
    other.commit()
    other.close()
    before = text.read_bytes(), base.read_bytes()
    for path in (text, base):
        with pytest.raises(NewtonsimError, match=f"resume: .*{path.name}: not the file of a sweep"):
            newtonsim.sweep(sweep_studies.refuses_six, NUMBERS, resume=path)
    assert (text.read_bytes(), base.read_bytes()) == before
    with pytest.raises(NewtonsimError, match=r"resume: .*unable to open"):
        newtonsim.sweep(sweep_studies.refuses_six, NUMBERS, resume=tmp_path / "no" / "folder.db")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"evaluate": 3}, "evaluate: expected a function or a class, got 3"),
        ({"parameters": {}}, "parameters: expected a dict with at least one array"),
        ({"parameters": {"a": [1, 2], "b": [1]}}, "equal length, got {'a': 2, 'b': 1}"),
        ({"parameters": {"a": 1.0}}, r"'a': expected an entry for each candidate, got shape \(\)"),
        ({"parameters": {"a": []}}, r"'a': expected an entry for each candidate, got shape \(0,\)"),
        ({"parameters": {"a": [None]}}, "'a': expected numbers, got object"),
        ({"batch": 0}, "batch: .* got 0"),
        ({"workers": 0}, "workers: .* got 0"),
        ({"workers": 1.5}, "workers: .* got 1.5"),
        ({"cpus": -1.0}, "cpus: .* got -1.0"),
        ({"gpus": float("nan")}, "gpus: .* got nan"),
        ({"retries": -1}, "retries: .* got -1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(NewtonsimError, match=message):
        newtonsim.sweep(**{"evaluate": sweep_studies.refuses_six, "parameters": NUMBERS, **arguments})


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (lambda n: n, "expected a dict of arrays"),
        (lambda n: {}, "expected a dict of arrays"),
        (lambda n: {"a": n[:1]}, r"result 'a': expected 5 entries.* got shape \(1,\)"),
        (lambda n: {"a": 1.0}, r"result 'a': .* got shape \(\)"),
        (lambda n: {"a": [None] * 5}, "result 'a': expected numbers, got object"),
        (lambda n: {"a": n} if n[0] else {"b": n}, "batch 1, .*results were {'b': .* are {'a':"),
    ],
)
def test_wrong_results(results, message):
    with pytest.raises(SweepError, match=message):
        newtonsim.sweep(lambda parameters: results(parameters["number"]), NUMBERS, batch=5)


def test_what_cannot_be_sent_is_refused(cluster, tmp_path):
    refused = pytest.raises(NewtonsimError, match="evaluate: it cannot be sent to other processes")
    with open(tmp_path / "open", "w") as file, refused:
        newtonsim.sweep(partial(sweep_studies.Sliders, notes=file), CANDIDATES, workers=1)


def test_grid():
    crossed = sampling.grid({"a": [1, 2], "b": [0.5, 0.6, 0.7], "c": ["x", "y"]})
    expected = list(itertools.product([1, 2], [0.5, 0.6, 0.7], ["x", "y"]))
    assert list(zip(*(values.tolist() for values in crossed.values()))) == expected


def test_latin_hypercube_has_one_sample_in_each_slice():
    ranges = {"a": (-1.0, 3.0), "b": (1e-3, 1e3)}
    samples = sampling.latin_hypercube(ranges, 100, seed=3, log=["b"])
    slices = np.floor(100 * (samples["a"] + 1.0) / 4.0), np.floor(100 * (np.log10(samples["b"]) + 3.0) / 6.0)
    for numbers in slices:
        assert sorted(numbers) == list(range(100))
    assert (slices[0] != slices[1]).any()
    again = sampling.latin_hypercube(ranges, 100, seed=3, log=["b"])
    np.testing.assert_array_equal(samples["b"], again["b"])


def test_random_samples_fill_the_box():
    samples = sampling.random({"a": (2.0, 4.0), "b": (1e-2, 1e2)}, 10_000, log={"b"})
    deviation = 1.0 / np.sqrt(12 * 10_000)
    for unit in ((samples["a"] - 2.0) / 2.0, (np.log10(samples["b"]) + 2.0) / 4.0):
        assert 0.0 <= unit.min() < unit.max() <= 1.0
        assert unit.mean() == pytest.approx(0.5, abs=4.0 * deviation)
    assert abs(np.corrcoef(samples["a"], np.log(samples["b"]))[0, 1]) < 0.05


@pytest.mark.parametrize("sample", [sampling.random, sampling.latin_hypercube])
@pytest.mark.parametrize(
    ("ranges", "count", "log", "message"),
    [
        ({}, 3, (), "ranges: expected a dict"),
        ({"a": (2.0, 1.0)}, 3, (), r"'a': expected \(lowest, highest\)"),
        ({"a": (0.0, np.inf)}, 3, (), r"'a': expected \(lowest, highest\)"),
        ({"a": (0.0, 1.0)}, 3, ("a",), "'a': a logarithm needs values above 0"),
        ({"mass": (1.0, 2.0)}, 3, ("mas",), "no range of 'mas'; did you mean 'mass'"),
        ({"a": (0.0, 1.0)}, 0, (), "count: .* got 0"),
    ],
)
def test_wrong_ranges(sample, ranges, count, log, message):
    with pytest.raises(NewtonsimError, match=message):
        sample(ranges, count, log=log)


def test_wrong_axes():
    with pytest.raises(NewtonsimError, match=r"axes: 'a': .* got shape \(0,\)"):
        sampling.grid({"a": []})


PROGRAMS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs/sweep.md").read_text(), re.MULTILINE | re.DOTALL
)


def test_boxes_of_the_document_slide_as_coulomb_says():
    program: dict = {"__name__": "__main__"}
    exec(compile(PROGRAMS[0], "sweep.md", "exec"), program)
    # the first step slides on with the speed before it: half a step too short at most
    assert np.abs(program["results"]["distance"] - program["coulomb"]).max() < 0.6 * 2.0 / 240.0


def test_the_arm_of_the_document_is_identified(tmp_path):
    script = tmp_path / "identify.py"  # Warp reads kernels from files
    script.write_text(PROGRAMS[1].replace("4096", "512"))
    program = runpy.run_path(str(script), run_name="__main__")
    for name, true in program["TRUE"].items():
        assert program["found"][name] == pytest.approx(true, rel=0.02), name
    assert program["misfit"] == pytest.approx(1.0, abs=0.1)


def test_without_ray_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NewtonsimError, match=r"workers: Ray is required: pip install 'newtonsim\[ray\]'"):
        newtonsim.sweep(sweep_studies.refuses_six, NUMBERS, workers=2)
