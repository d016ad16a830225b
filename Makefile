# Needs Python >= 3.11 and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS ?= runs
STAMP := $(VENV)/.installed
# All top-level tests except test_growth.py, which is slow to change.
OF_ALL := $(filter-out tests/test_growth.py,$(wildcard tests/test_*.py))
QUICK := $(OF_ALL) tests/core tests/accounting tests/round tests/data \
	tests/mechanisms tests/run/test_one_run.py
# Without the imports of a fresh process and the other runs, which took half of its time:
# `make test-all` has them.
LANE := $(filter-out tests/test_packaging.py,$(OF_ALL)) \
	$(wildcard tests/core/test_*.py) \
	tests/accounting/test_composition.py tests/devices/test_compiler_flags.py \
	tests/run/test_one_run.py::test_a_run_stopped_midway_and_resumed_equals_an_uninterrupted_one
BITS := tests/models/test_evaluation.py \
	tests/round/test_replay_of_neighbours.py \
	tests/devices/test_lanes.py tests/run/test_own_loop.py \
	tests/federation/test_cohort_stream.py
REFERENCES := .venv-references
REFERENCES_STAMP := $(REFERENCES)/.installed
DEPLOY := .venv-deploy
DEPLOY_STAMP := $(DEPLOY)/.installed
ACCELERATORS := .accelerators
ACCELERATORS_STAMP := $(ACCELERATORS)/.installed
AUDIT := .audit
AUDIT_STAMP := $(AUDIT)/.installed
FUZZ_SECONDS ?= 3600

# Wheels alone, each by its hash. `promise` is published as source alone: the pinned
# setuptools builds it, in the environment itself.
WHEELS := -m pip install --quiet --disable-pip-version-check --require-hashes \
	--only-binary=:all: --no-binary=promise --no-build-isolation
EDITABLE := -m pip install --quiet --disable-pip-version-check --no-deps \
	--no-build-isolation --editable .
# An editable installation is wanted here, so setuptools need not warn of one.
EXPECTED := PYTHONWARNINGS="ignore:Editable installation"
BUILD_PARTS := requirements/build.txt

export TQDM_MININTERVAL := 0.5
# Where this is set, every process that a test starts would compile Python anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-bits test-lab test-all durations test-quick test-lane \
	test-slow test-references test-deploy test-browser docs tutorial lint format bench \
	growth accelerators audit fuzz clean

setup: $(STAMP)

# The pinned dependencies, then this folder itself, editable: `import fedsvp_jax` works
# from everywhere with .venv/bin/python. pip and setuptools are pinned too, and come first.
$(STAMP): $(BUILD_PARTS) requirements/test.txt pyproject.toml setup.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(WHEELS) -r $(BUILD_PARTS)
	$(BIN)/python $(WHEELS) -r requirements/test.txt
	$(EXPECTED) $(BIN)/python $(EDITABLE)
	touch $(STAMP)

demo: setup
	rm -rf $(RUNS)/demo
	$(BIN)/python -m experiments.demo --output_dir=$(RUNS)/demo

# The core's tests but the slow ones, then those of the bits of different programs, which
# only the users' compiler promises (tests/conftest.py). A file is one worker's, whose
# fixtures are then made once, and the longest come first. Compiled programs are kept in
# .cache/compiled, so a second time takes half as long.
IN_TWO := -n 2 --dist loadfile --no-loadscope-reorder
test: setup
	$(BIN)/python -m pytest $(IN_TWO) -m "not lab and not slow and not bits"
	$(MAKE) test-bits

test-bits: setup
	FEDSVP_USERS_COMPILER=1 $(BIN)/python -m pytest -m "bits and not slow" $(BITS)

# The same of what stands around the core: attacks, reports, deployed clients, commands,
# documentation, campaigns of faults.
test-lab: setup
	$(BIN)/python -m pytest $(IN_TWO) -m "lab and not slow and not bits"

# What CI runs beside test-bits: both, collected once, so that no worker waits at the end
# of the first.
test-all: setup
	$(BIN)/python -m pytest $(IN_TWO)

# Which files take longest: tests/durations.json, by which they are put in order.
durations: setup
	FEDSVP_DURATIONS=1 $(BIN)/python -m pytest $(IN_TWO)

# While editing: formulas, mechanisms, accounting, data, the parts of a round, the
# package's structure, and a run with its resumption. Under a minute from the second
# time on.
test-quick: setup
	$(BIN)/python -m pytest $(IN_TWO) $(QUICK)

# Under another Python, which gets a newer JAX, in an environment of its own:
#   make PYTHON=python3.13 VENV=.venv-lane test-lane
# Formulas, ledger, the compiler's flags, and the bytes of a resumed run.
test-lane: setup
	FEDSVP_USERS_COMPILER=1 $(BIN)/python -m pytest $(LANE)

# PyTorch and what is written in it, to compare with, in an environment without JAX;
# test-deploy looks for Opacus there.
# --no-deps: some needs are left out on purpose (requirements/references.in).
$(REFERENCES_STAMP): $(BUILD_PARTS) requirements/references.txt
	$(PYTHON) -m venv $(REFERENCES)
	$(REFERENCES)/bin/python $(WHEELS) -r $(BUILD_PARTS)
	$(REFERENCES)/bin/python $(WHEELS) --no-deps -r requirements/references.txt
	touch $(REFERENCES_STAMP)

test-slow: setup $(REFERENCES_STAMP)
	FEDSVP_USERS_COMPILER=1 $(BIN)/python -m pytest -m slow

test-references: setup $(REFERENCES_STAMP)
	$(BIN)/python -m pytest -m slow tests/models/test_references.py

# The report page and the site in a real browser, which is installed where it may be.
test-browser: setup
	FEDSVP_BROWSER=$$(tests/report/browser.sh) \
		$(BIN)/python -m pytest tests/report/test_browser.py \
		tests/docs/test_site_in_a_browser.py

# Clients of a real federation, in an environment of its own. --no-deps: pfl asks for
# older libraries than it needs (requirements/deploy.overrides).
$(DEPLOY_STAMP): $(BUILD_PARTS) requirements/deploy.txt pyproject.toml
	$(PYTHON) -m venv $(DEPLOY)
	$(DEPLOY)/bin/python $(WHEELS) -r $(BUILD_PARTS)
	$(DEPLOY)/bin/python $(WHEELS) --no-deps -r requirements/deploy.txt
	$(EXPECTED) $(DEPLOY)/bin/python $(EDITABLE)
	touch $(DEPLOY_STAMP)

test-deploy: $(DEPLOY_STAMP) $(REFERENCES_STAMP)
	FEDSVP_USERS_COMPILER=1 $(DEPLOY)/bin/python -m pytest -m "slow or not slow" \
		--ignore=tests/deploy/test_noise.py tests/deploy

# The site, to runs/site: a broken link fails. Nothing is fetched.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict \
		--site-dir $(abspath $(RUNS))/site

# The notebook's outputs anew.
tutorial: setup
	$(BIN)/jupyter-execute --inplace docs/tutorial.ipynb
	$(BIN)/ruff format --quiet docs/tutorial.ipynb
	rm -rf docs/runs

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The compilers of accelerators, in a folder beside .venv, for
# `python -m experiments.benchmark.accelerators`.
$(ACCELERATORS_STAMP): requirements/accelerators.txt $(STAMP)
	rm -rf $(ACCELERATORS)
	$(BIN)/python $(WHEELS) --no-deps --target $(ACCELERATORS) -r requirements/accelerators.txt
	touch $(ACCELERATORS_STAMP)

accelerators: setup $(ACCELERATORS_STAMP)

# How the cost of what grows grows: docs/scaling.md.
growth: setup
	$(BIN)/python -m tests.growth

bench: setup
	$(BIN)/python -m experiments.benchmark

# Of every pin: has it a hash, is it a wheel, is a weakness of it known? And an SBOM of
# each file of pins (CycloneDX) in runs/sbom. What needs the network says so without it.
$(AUDIT_STAMP): $(BUILD_PARTS) requirements/audit.txt
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python $(WHEELS) -r $(BUILD_PARTS)
	$(AUDIT)/bin/python $(WHEELS) --no-deps -r requirements/audit.txt
	touch $(AUDIT_STAMP)

audit: $(AUDIT_STAMP)
	$(AUDIT)/bin/python requirements/audit.py $(RUNS)/sbom

# Hypothesis damages files for every reader, FUZZ_FILES (10,000) for each or more, for
# FUZZ_SECONDS in all.
fuzz: setup
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest -s -m slow tests/data/datasets/test_fuzz.py

clean:
	rm -rf $(VENV) .venv-lane $(REFERENCES) $(DEPLOY) $(ACCELERATORS) $(AUDIT) $(RUNS) .cache .pytest_cache \
		.mypy_cache .ruff_cache \
		.hypothesis build *.egg-info
