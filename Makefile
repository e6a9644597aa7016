# Two commands do all the set-up: `make demo` and `make test`. Everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo live test test-portable test-slow bench bench-data bench-default bench-peers bench-gpu bench-serve bench-house lint format docs clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "placings needs Python 3.11 or newer, but " + sys.executable + " is " + sys.version.split()[0] + ". Name another with: make PYTHON=python3.12 " + "$(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once; again only when pyproject.toml or constraints.txt change)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(STAMP)  ## the main job: real places, a simulated log, rankers compared, a page to open
	@$(BIN)/placings demo --out out/demo

live: $(STAMP)  ## the loop over HTTP: people search through a service that learns from their clicks; a page to open
	@$(BIN)/placings reproduce live --out out/live

# Where compiled files are switched off, each of the processes that tests start would compile all of placings
# anew, and each worker every test file: a fifth of the time.
test test-slow: export PYTHONDONTWRITEBYTECODE =

test: $(STAMP)  ## the tests that a change must pass; COVERAGE=1 measures lines and holds the floor
	PLACINGS_BUDGET=300 $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder -m "not slow" --durations=25 $(if $(COVERAGE),--cov --cov-report=term)

test-portable: $(STAMP)  ## the numeric tests as a CPU without this one's vector instructions computes, on 1 and 2 threads
	$(BIN)/python tests/portable.py

test-slow: $(STAMP)  ## the long tests
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m slow --durations=25

# Each prints what it measured; one that lacks its data, its peer or its device says so and exits with 0.
bench: $(STAMP)  ## ratios against the peers that the install brings, measured now on this machine
	$(BIN)/python benchmarks/read.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/ranksvm.py
	$(BIN)/python benchmarks/feature_coverage.py
	$(BIN)/python benchmarks/alerts.py
	$(BIN)/python benchmarks/risk.py
	$(BIN)/python benchmarks/online_tests.py
	$(BIN)/python benchmarks/gate_errors.py
	$(BIN)/python benchmarks/guard_errors.py --quick
	$(BIN)/python benchmarks/propensity_recovery.py --quick
	$(BIN)/python benchmarks/interval_coverage.py --quick
	$(BIN)/python benchmarks/join.py
	$(BIN)/python benchmarks/places_threads.py
	$(BIN)/python benchmarks/hot_path.py

bench-data: $(STAMP)  ## those on the shared real data, in $PLACINGS_DATA (default ../shared/data); hours
	$(BIN)/python benchmarks/round_trips.py
	$(BIN)/python benchmarks/places_engine.py
	$(BIN)/python benchmarks/places_gain.py
	$(BIN)/python benchmarks/personal_history.py
	$(BIN)/python benchmarks/honest_learning.py
	$(BIN)/python benchmarks/real_places.py
	$(BIN)/python benchmarks/input_norm.py
	$(BIN)/python benchmarks/transforms.py
	$(BIN)/python benchmarks/neural_budget.py --budgets 15m

# what is there in benchmarks/results/default_ranker is not made again; ARGS='--sets mslr --minutes 0.5' for less
bench-default: $(STAMP)  ## the default ranker against tuned peers, on real sets and made families; half a day
	$(BIN)/python benchmarks/default_ranker.py run $(ARGS)
	$(BIN)/python benchmarks/default_ranker.py table $(ARGS)
	$(BIN)/python benchmarks/whole_fits.py

# tf_ranking.py starts tf_ranking_peer.py in the peer's environment
bench-peers: $(STAMP)  ## training speed against TF-Ranking; PEER=tfr/bin/python names its environment
	PEER=$(PEER) $(BIN)/python benchmarks/tf_ranking.py

bench-gpu: $(STAMP)  ## the paper's recipe on one GPU: speed, precision, planted transforms
	$(BIN)/python benchmarks/gpu_training.py speed
	$(BIN)/python benchmarks/gpu_training.py precision
	$(BIN)/python benchmarks/gpu_training.py recovery
	$(BIN)/python benchmarks/network_sizes.py
	$(BIN)/python benchmarks/network_default.py run

# serve_load.py starts serve_peer.py and drives it by serve_client.py; ARGS='--soak 30' watches memory instead
bench-serve: $(STAMP)  ## load on placings serve beside LightGBM behind FastAPI; needs make demo; 8 minutes
	$(BIN)/python benchmarks/serve_load.py $(ARGS)

bench-house: $(STAMP)  ## the source in numbers: sizes, doors, repeats, the way of a click
	$(BIN)/python benchmarks/house.py

lint: $(STAMP)  ## formatting, lint, types, layers, doors, versions that fit each other
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_doors.py
	$(BIN)/python -m pip check --disable-pip-version-check

format: $(STAMP)  ## rewrite the files as ruff wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## the site, in docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:  ## remove everything that make made
	rm -rf $(VENV) out dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
