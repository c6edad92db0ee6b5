# Every target makes its own virtual environment on first use.
# Needed: make, and Python 3.11 or newer with venv and pip. Some tests also want a C compiler, and skip themselves without.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
TORCH ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DOCS_STAMP := $(VENV)/.ready-docs
BENCH_STAMP := $(VENV)/.ready-bench
ROBOTS_STAMP := $(VENV)/.ready-robots
ROBOT_WHEELS := example_robot_data mujoco_mjx dm_control robosuite mjlab genesis_world
LINKWORK_ROBOTS ?= $(abspath $(VENV))/robots
DOCS := docs/_build/html
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check

.PHONY: help demo test test-gpu test-all pytest-all mutants bench bench-gpu papers lint docs pictures wheel wheel-check clean

help:
	@echo "make demo      a biped with parallel ankles: diagnosed, swung, stood on the ground, timed and filmed, in a minute"
	@echo "make test      lint, types, import direction, and the tests that are quick"
	@echo "make test-all  that, the slow tests, the documentation and the wheel"
	@echo "make mutants   plant N=100 small errors at random places (SEED=0), and see whether the quick tests find them (SKIP=k: from the k-th on; MEASURE=1: record what tests execute first)"
	@echo "make bench     measure"
	@echo "make papers    reproduce the experiments of the papers, into out"
	@echo "make test-gpu  what needs an NVIDIA GPU; make bench-gpu measures there"
	@echo "make lint      style, types and import direction only"
	@echo "make docs      build the documentation into $(DOCS)"
	@echo "make pictures  draw the gallery of mechanisms, docs/gallery.md"
	@echo "make wheel     build the wheel into dist"
	@echo "make clean     remove what the other targets made"

demo: $(STAMP)
	$(BIN)/linkwork demo

test: lint
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist loadfile

test-all: lint pytest-all docs wheel-check

pytest-all: $(ROBOTS_STAMP)
	LINKWORK_TEST_ALL=1 LINKWORK_ROBOTS="$(LINKWORK_ROBOTS)" $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell docs src README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md
	$(BIN)/python tools/limits.py
	$(BIN)/python tools/commit_subjects.py

N ?= 100
SEED ?= 0
SKIP ?= 0

mutants: $(STAMP)
	@$(PIP) "coverage>=7"
	$(BIN)/python tools/mutants.py $(N) --seed $(SEED) --skip $(SKIP) --workers $(WORKERS) $(if $(MEASURE),--measure)

bench: $(BENCH_STAMP)
	$(BIN)/python bench/run.py

papers: $(BENCH_STAMP)
	PYTHONPATH=bench $(BIN)/python -m papers loops
	PYTHONPATH=bench $(BIN)/python -m papers constrained
	PYTHONPATH=bench $(BIN)/python -m papers flexible

# On a machine with a GPU, with the Python that has CuPy, PyTorch and JAX there: make test-gpu GPU_PYTHON=python3
GPU_PYTHON ?= $(BIN)/python

test-gpu:
	PYTHONPATH=src:tests/helpers $(GPU_PYTHON) -m pytest tests/gpu tests/compiler/test_cuda_target.py

bench-gpu:
	PYTHONPATH=src:bench $(GPU_PYTHON) bench/gpu.py

docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs $(DOCS)
	@echo "The documentation is in $(DOCS)/index.html"

pictures: $(STAMP)
	$(BIN)/python tools/gallery.py

wheel: $(STAMP)
	rm -rf dist build
	$(BIN)/python -m build --wheel --outdir dist . >/dev/null
	@ls dist

# The wheel must be pure Python, and work where nothing else is installed.
wheel-check: wheel
	@ls dist/linkwork-*-py3-none-any.whl
	rm -rf build/wheel-check
	$(PYTHON) -m venv build/wheel-check
	build/wheel-check/bin/python -m pip install -qq --disable-pip-version-check dist/linkwork-*-py3-none-any.whl
	cd build && LINKWORK_CACHE=off wheel-check/bin/python -c \
	  'import linkwork as lw; k = lw.compile(lambda x: lw.sin(x) * x, {"x": 2}); print(lw.__version__, k([0.5, 1.0]))'
	cd build && LINKWORK_CACHE=off wheel-check/bin/linkwork cache

clean:
	rm -rf $(VENV) build dist out docs/_build src/linkwork.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench tools docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "linkwork needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing)."; \
	  echo "Name another one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	  echo "'$(PYTHON)' lacks venv or pip. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Making $(VENV) (once, and again when pyproject.toml changes)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e ".[dev]"
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@$(PIP) -e ".[bench]" || echo "Peers are not all here: what can be measured is."
	@touch $@

# For make test-all: Exudyn, which flexible bodies are compared with, other frameworks (PyTorch is large, so it must be asked for:
# make test-all TORCH=torch), and the large sets of robot files for the sweeps, whose tables are out/files_*.csv. Wheels with
# many dependencies are unpacked only: their files are read, and nothing of them is run.
$(ROBOTS_STAMP): $(STAMP)
	@$(PIP) -e ".[exudyn]" || echo "Exudyn is not here: the tests against it are skipped."
	@for extra in jax casadi sympy xacro log film study; do \
	  $(PIP) -e ".[$$extra]" || echo "The extra $$extra is not here: its tests are skipped."; \
	done
	@$(PIP) polars duckdb || echo "Polars and DuckDB are not here: that they read folders of studies is not tested."
	@test -z "$(TORCH)" || $(PIP) "$(TORCH)" || echo "PyTorch is not here: its tests are skipped."
	@$(PIP) -e ".[robots]" || echo "Not all robot files are here: their sweeps are skipped."
	@for wheel in $(ROBOT_WHEELS); do \
	  $(PIP) --no-deps --upgrade --target "$(VENV)/robots/$$wheel" $$wheel || echo "$$wheel is not here: its table is not made."; \
	done
	@touch $@

$(DOCS_STAMP): $(STAMP)
	@$(PIP) -e ".[docs]"
	@touch $@
