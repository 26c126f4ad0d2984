# Needs only make and Python 3.11 or later; everything else goes into .venv.
#   make demo   install, and let 1024 quadrupeds settle on the ground
#   make test   install with the test extra, lint, check types, run all tests
#   make test-indices   run most tests again, with kernels that check every index
#   make bench  install with the bench extra, run the short form of all benchmarks (some minutes)
#   make docs   install with the docs extra, build the site of the docs into build/site
#   make clean  remove .venv and what builds leave behind
# Another interpreter: make demo PYTHON=/path/to/python3.12

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
PYTHON ?=

.PHONY: demo test test-indices bench docs clean
.DEFAULT_GOAL := demo

# A wheel built over an old build/ would contain modules that the tree no longer has.
demo: $(BIN)/python
	rm -rf build $(VENV)/test-installed
	@echo "installing newtonsim into $(VENV): 0.9 GB ..."
	$(PIP) .
	$(BIN)/newtonsim run

test: $(VENV)/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pytest -n 2

test-indices: $(VENV)/test-installed
	NEWTONSIM_CHECKED=indices $(BIN)/pytest -n 2

# The tests need no GPU: where there is none, torch comes without the libraries of CUDA, if its index can be reached.
# CI takes all packages from one index.
$(VENV)/test-installed: $(BIN)/python pyproject.toml
	@if [ -z "$$CI" ] && ! command -v nvidia-smi >/dev/null; then \
	    echo "1/2 installing torch for the CPU into $(VENV) ..."; \
	    $(PIP) --retries 0 --timeout 15 --index-url https://download.pytorch.org/whl/cpu torch || \
	        echo "not found; torch comes from the default index, with the libraries of CUDA: 5.6 GB"; \
	fi
	@echo "2/2 installing newtonsim[test] into $(VENV): 150 packages, 3.6 GB ..."
	$(PIP) --editable '.[test]'
	touch $@

BENCHMARKS := robots python_calls pybullet_compat contacts deformables gradients gradient_cost scaling bullet_world building startup profile_step gpu_static gradient_table

bench: $(VENV)/bench-installed
	@for name in $(BENCHMARKS); do \
	    echo; echo "== $$name"; $(BIN)/python benchmarks/$$name.py --short || exit 1; \
	done

$(VENV)/bench-installed: $(BIN)/python pyproject.toml
	@echo "installing newtonsim[bench] into $(VENV) ..."
	$(PIP) --editable '.[bench]'
	touch $@

# The reference is read from the package as it is installed.
docs: $(VENV)/docs-installed
	rm -rf build/package
	$(PIP) --quiet --no-deps --target build/package .
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open build/site/index.html, or read it with search: $(BIN)/mkdocs serve"

$(VENV)/docs-installed: $(BIN)/python pyproject.toml
	@echo "installing the docs extra into $(VENV) ..."
	$(PIP) --editable '.[docs]'
	touch $@

$(BIN)/python:
	@for python in $(or $(PYTHON),python3.14 python3.13 python3.12 python3.11 python3 python); do \
	    "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    echo "creating $(VENV) with $$("$$python" --version) ($$python)"; \
	    "$$python" -m venv $(VENV) && exit 0 || { rm -rf $(VENV); exit 1; }; \
	done; \
	echo "newtonsim needs Python 3.11 or later with the venv module; none was found." >&2; \
	echo "Name one with: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
	exit 1

clean:
	rm -rf $(VENV) build dist *.egg-info .cache .pytest_cache .ruff_cache .hypothesis
