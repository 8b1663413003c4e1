# make demo   set everything up and watch three tiers train (about a minute)
# make test   set everything up, check the code and run the tests
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo check format test test-slow test-flower docs clean

help: ## show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP) ## make .venv with everything in it (does nothing the second time)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "HPFL needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[figures,deploy,watch,tensorboard,wandb,docs,dev,ray,tune]'
	touch $(STAMP)

demo: install ## train HPFL and SHPFL on embedded data and compare them
	$(BIN)/hpfl demo

check: install ## format, lint, types, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## rewrite the code in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check ## everything in check, then the tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "not slow"

test-slow: install ## the full matrices, which take many minutes
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m slow

test-flower: install ## the recipe for Flower, in an environment of its own (flwr wants other versions than we pin)
	test -x .venv-flower/bin/python || $(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check flwr scipy
	HPFL_FLOWER_PYTHON=.venv-flower/bin/python $(BIN)/pytest tests/docs/test_examples.py -k flower

docs: install ## the site, in docs/_build/html, notebooks executed; warnings are errors
	$(BIN)/python scripts/make_reference.py
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -b html -n -W --keep-going -q docs docs/_build/html
	@echo open docs/_build/html/index.html

clean: ## remove the environment and caches
	rm -rf .venv .venv-flower docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
