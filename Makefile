# The commands of this project; `make help` lists them. Each one sets up what it needs.

.DEFAULT_GOAL := help
.PHONY: help env demo docs fast pure test tests test-long test-compiled share lint bench flink flink-past clean

BIN := .venv/bin
# One process more than there are cores, as tests also wait; at most four.
PROCESSES := $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n < 4 ? n + 1 : 4)))
PYTEST := $(BIN)/pytest --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder
export PYTHON
# Tests start many Pythons; without bytecode each of them compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

env: ## make the environment in .venv from constraints.txt (PYTHON=... chooses the interpreter)
	@sh .ci/environment.sh

demo: env ## run the main job on real data through Spark; writes netstack-demo/report.html
	@$(BIN)/netstack demo

docs: env ## make the documentation's site; writes build/site/index.html, which needs no network
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --jobs 2 docs build/site
	@echo "netstack: open build/site/index.html"

fast: env ## compile the core in place (two minutes, needs a C compiler): about twice the speed
	@echo "netstack: compiling the core; this takes about two minutes"
	@mkdir -p build && touch build/begun
	@find flowcontrol buffers netstack -name '*.so' -delete
	@$(BIN)/python setup.py --quiet build_ext --inplace --parallel 2 >build/fast.log 2>&1 || \
		{ tail -n 20 build/fast.log; exit 1; }
	@find flowcontrol buffers netstack -name '*.so' -exec touch -r build/begun {} + # what changed since is stale
	@$(BIN)/netstack --version

pure: ## back to plain Python: remove what 'make fast' has compiled
	rm -rf build
	find flowcontrol buffers netstack -name '*.so' -delete

test: env ## lint, and beside it the tests
	@$(MAKE) --no-print-directory --jobs=2 lint tests

tests: env ## the tests with warnings as errors, on up to four cores
	$(PYTEST) -m "not long"

test-long: env ## the tests that take long: whole references, many storms, clusters, sessions of their own, more fuzz
	$(PYTEST) -m long $(addprefix --ignore=,$(WITHOUT))
	$(PYTEST) tests/fuzz --hypothesis-profile=long

test-compiled: env ## the tests of the core, the storms and the references, compiled, in a copy of this checkout
	@sh .ci/test-compiled.sh

share: env ## write anew what is generated: the man page, the schema of scenarios, their page of the reference
	@$(BIN)/python .ci/man_page.py >build.share && mv build.share share/man/man1/netstack.1
	@$(BIN)/netstack schema >build.share && mv build.share share/netstack/scenario.schema.json
	@$(BIN)/python .ci/scenario_page.py >build.share && mv build.share docs/reference/SCENARIO_FILES.md

lint: env ## ruff check, ruff format --check and mypy --strict over the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: env ## micro-benchmarks (CASES="networkThroughput or barrier" chooses, as pytest -k), then whole jobs
	$(BIN)/pytest benches -k "$(CASES)"
	$(BIN)/python -m benches.jobs

flink: env ## fetch a real Flink (300 MB), run a small job in it, and compare (needs a JDK)
	@$(BIN)/python -m tests.flink proof

flink-past: env ## run a load that rises and falls in a real Flink, and read its peak from Prometheus (needs both)
	@$(BIN)/python -m tests.flink past peaks

clean: ## remove caches, builds and reports; the environment stays (rm -r .venv)
	rm -rf .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist netstack-demo flink-results *.egg-info
	find . -name .venv -prune -o -type d -name __pycache__ -exec rm -rf {} +
