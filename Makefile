# Two commands do everything: `make demo` and `make test`. `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help

CARGO ?= cargo
PYTHON3 ?= python3

# Where Python packages come from; empty means the installer's own setting.
#   INDEX_URL        a package index
#   TORCH_BUILD      `default`, or `cpu` to leave out several GB of CUDA libraries
#   TORCH_INDEX_URL  the index of that build, needed with TORCH_BUILD=cpu
INDEX_URL ?=
TORCH_BUILD ?= default
TORCH_INDEX_URL ?=
export CONFORMANCE_INDEX_URL := $(INDEX_URL)
export CONFORMANCE_TORCH_BUILD := $(TORCH_BUILD)
export CONFORMANCE_TORCH_INDEX_URL := $(TORCH_INDEX_URL)

# Queries are checked against the committed .sqlx, so that a build needs no database.
export SQLX_OFFLINE := true

.PHONY: help
help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: require build ## Run a small selection of every suite, push it, show the gate and the dashboard
	@scripts/demo

.PHONY: test
test: require ## Run every test of every part
	@scripts/test

.PHONY: lint
lint: build ## Formatting, clippy, ruff and mypy
	@scripts/lint

.PHONY: build
build: require
	@echo "==> building the server and the runner (the first time takes some minutes)"
	@$(CARGO) build --locked --bin server --bin runner

.PHONY: bench
bench: ## Print each figure as a ratio with its goal; writes target/bench.json
	@scripts/bench

.PHONY: screenshots
screenshots: build ## Make docs/images/*.png from a running server, with headless Chromium
	@scripts/screenshots

.PHONY: lock
lock: ## Write the Python locks anew from runner/python/*.in
	@runner/python/lock.sh

.PHONY: sqlx
sqlx: ## Write .sqlx anew from the queries and the migrations
	@scripts/sqlx write

# What a fresh machine may lack, each with its remedy, all at once.
.PHONY: require
require:
	@missing=0; \
	need() { command -v "$$1" >/dev/null 2>&1 || { printf 'error: `%s` is not installed\n\nhint: %s\n' "$$1" "$$2" >&2; missing=1; }; }; \
	need $(firstword $(CARGO)) 'install Rust, for example with rustup'; \
	need cc 'install a C compiler, on Debian or Ubuntu `apt-get install gcc libc6-dev`'; \
	need $(PYTHON3) 'install Python 3.11 or newer, on Debian or Ubuntu `apt-get install python3 python3-venv`'; \
	exit $$missing
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	printf 'error: `%s` is older than Python 3.11\n\nhint: name a newer one with `make PYTHON3=python3.12 …`\n' '$(PYTHON3)' >&2; exit 1; }
