# Everything runs in .venv, which the first target that needs it makes; nothing but a Python >= 3.10 is asked for.
# `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
KIT ?= examples/digits
PYTEST_ARGS ?=
BACKEND ?= tensorrt-rtx
BENCH_ARGS ?=

# The first Python on the search path that is new enough and can make environments; 3.11 is what CI runs. Set PYTHON
# to choose another.
FIND_PYTHON := for candidate in python3.11 python3 python3.12 python3.13 python3.10 python; do \
	"$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 || continue; \
	echo "$$candidate"; break; done
PYTHON ?= $(shell $(FIND_PYTHON))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(INSTALLED) ## compile a digit classifier for this CPU; print accuracy, latency and size before and after
	@$(BIN)/python examples/digits/run_demo.py

.PHONY: test
test: $(INSTALLED) ## run the tests (PYTEST_ARGS="-k quantize" for some of them)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: test-backend
test-backend: $(INSTALLED) ## run one backend's tests with its real tools, installed once (BACKEND=tensorrt-rtx)
	@$(BIN)/infer-opt doctor --install "$(BACKEND)"
	@INFER_OPT_TEST_BACKEND="$(BACKEND)" $(BIN)/python -m pytest tests/backends -k "$(subst -,_,$(BACKEND))" $(PYTEST_ARGS)

.PHONY: lint
lint: $(INSTALLED) ## check style, format, types and that every file compiles
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m compileall -q infer_opt tests examples

.PHONY: bench
bench: $(INSTALLED) ## time the models of KIT=FOLDER; with KIT/calib, compare quantizers (BENCH_ARGS="--recipes FILE.py")
	@$(BIN)/infer-opt bench "$(KIT)"/*.onnx
	@if [[ -d "$(KIT)/calib" ]]; then $(BIN)/python benchmarks/rivals.py "$(KIT)" $(BENCH_ARGS); fi

.PHONY: golden
golden: $(INSTALLED) ## write the golden files anew; read the diff before you commit it
	@$(BIN)/python -m pytest --regenerate-golden $(PYTEST_ARGS)

.PHONY: clean
clean: ## remove the environment, caches and everything built
	@rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find infer_opt tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Made again when pyproject.toml changes. The stamp comes last, so that an installation cut short is taken up again.
$(INSTALLED): pyproject.toml
	@if [[ -z "$(PYTHON)" ]]; then \
		echo "no Python >= 3.10 with venv on the search path" >&2; \
		echo "hint: install one, or pass PYTHON=/path/to/python3" >&2; exit 1; fi
	@echo "installing into $(VENV) (once; a minute or two)" >&2
	@[[ -x $(BIN)/pip ]] || "$(PYTHON)" -m venv $(VENV)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
