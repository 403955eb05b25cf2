# What a person runs. Every target that builds begins with the set-up, which takes a second once it is done.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.NOTPARALLEL:

BUILD := build/dev
JOBS ?= $(shell nproc)
# Set-up may make the virtual environment: looked up when a recipe runs.
PYTHON = $(if $(wildcard .deps/venv/bin/python),.deps/venv/bin/python,python3)
WITH_PACKAGE = PYTHONPATH=$(CURDIR)/$(BUILD)/python $(PYTHON)

.PHONY: help setup package build install demo demo-dask demo-ray check test thorough arm arm-threads gpu-test mutants coverage explore abi lint bench site docs notebook wheel wheel-arm wheel-test release clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## fetch what is missing into .deps/ (the others do it by themselves)
	@python3 scripts/setup.py

build: setup ## configure and build the preset dev (DEV: options of CMake)
	@cmake --preset dev $(DEV)
	@cmake --build $(BUILD) -j $(JOBS)

install: setup ## the C++ library with its headers below PREFIX, /usr/local by default (INSTALL: options of CMake)
	@cmake --preset release -B build/install -DSAETA_PYTHON=OFF -DSAETA_TESTS=OFF -DSAETA_BENCH=OFF -DSAETA_EXAMPLES=OFF $(INSTALL)
	@cmake --build build/install -j $(JOBS)
	@cmake --install build/install --strip --prefix $(or $(PREFIX),/usr/local)

package: setup ## the Python package alone, with its stubs, without tests and benchmarks
	@cmake --preset dev $(DEV)
	@cmake --build $(BUILD) -j $(JOBS) --target saeta_package

demo: package ## the whole trip: a real Arrow file to the best device and back, with a report
	@$(WITH_PACKAGE) -m saeta demo

demo-dask: package ## a data set that is larger than all budgets together, through a Dask cluster of two processes
	@$(WITH_PACKAGE) examples/dask_pipeline.py

demo-ray: package ## a data set larger than all budgets together through a local cluster of Ray (examples/ray_pipeline.py)
	@$(WITH_PACKAGE) examples/ray_pipeline.py

check: package ## what a change breaks first: lint of what changed, unit tests, conformance on host and sim
	@JOBS=$(JOBS) scripts/check.sh $(BUILD)

test: build ## every test; a GPU that is present is used
	@ctest --preset dev -j $(JOBS)

thorough: build ## what .ci/run leaves out: sanitizers, fuzzers, the site's tests, wheels, every header alone
	@JOBS=$(JOBS) scripts/thorough.sh

arm: setup ## cross-compile the C++ library for 64-bit Arm, and run its tests under qemu
	@cmake --preset aarch64
	@cmake --build --preset aarch64 -j $(JOBS)
	@ctest --preset aarch64 -j $(JOBS)

# Under qemu, programs with ThreadSanitizer have few addresses: most simulated devices need too many.
ARM_THREADS := thread_pool*:background_thread*:queued_work*:counters*:event_log*:name_table*:read_clock*:share_*:sealed_file*:interruptible_mutex*-share_pair.the_system_closes_surplus_descriptors

arm-threads: setup ## random programs and tests of threads on Arm with ThreadSanitizer, under qemu
	@cmake --preset aarch64-tsan
	@cmake --build --preset aarch64-tsan -j $(JOBS) --target saeta_unit_tests saeta_schedules
	@ctest --preset aarch64-tsan
	@setarch -R qemu-aarch64-static -L /usr/aarch64-linux-gnu build/aarch64-tsan/bin/saeta_unit_tests --gtest_brief=1 --gtest_filter='$(ARM_THREADS)'

gpu-test: build ## only what needs a GPU
	@ctest --preset dev -L gpu

mutants: setup ## plant bugs in a copy of the tree and let the tests find them (MUTANTS: arguments of scripts/mutants.py)
	@python3 scripts/setup.py --tools
	@$(PYTHON) scripts/mutants.py $(MUTANTS)

coverage: setup ## which lines of C++ and Python the tests reach, in build/coverage/report (COVERAGE: options)
	@python3 scripts/setup.py --tools
	@$(PYTHON) scripts/coverage_report.py --jobs $(JOBS) $(COVERAGE)

explore: build ## look for what no test has drawn yet: random examples and the fuzzers, half an hour
	@SAETA_EXAMPLES=3000 $(WITH_PACKAGE) -m pytest -q tests/python/test_properties.py tests/python/test_memory_properties.py tests/python/test_equals.py
	@scripts/fuzz.sh 300

abi: build ## write down what the libraries export now, in tests/abi (docs/abi.md)
	@$(PYTHON) scripts/abi.py $(BUILD) --update

lint: package ## formatting, static checks, types and the structure of the tree
	@scripts/lint.sh $(LINT_OPTIONS)

bench: build ## the benchmarks at a size that takes seconds
	@scripts/bench.sh $(BUILD)

site: package ## the documentation as a site in build/site
	@python3 scripts/setup.py --docs
	@NO_MKDOCS_2_WARNING=1 .deps/venv/bin/python -m mkdocs build --strict --site-dir build/site
	@echo "build/site/index.html"

docs: site ## the site, with the tests of its links, names, pages and search
	@.deps/venv/bin/python -m pytest -q -p no:cacheprovider tests/site

notebook: package ## what a newcomer does: README, quick start and tutorial in one notebook, and twelve jobs
	@python3 scripts/setup.py --notebook
	@$(WITH_PACKAGE) -m pytest -q -p no:cacheprovider tests/newcomer

wheel: setup ## the wheels in dist/, for Python 3.11 and for later ones, with every supported pyarrow (WHEELS: arguments)
	@$(PYTHON) scripts/build_wheels.py $(WHEELS)

wheel-arm: setup ## cross-compile a wheel for 64-bit Arm, and run tests of the package with it under qemu
	@$(PYTHON) scripts/arm_wheel.py --output dist

wheel-test: ## install the wheels of dist/ into clean environments and run the README in each
	@$(PYTHON) scripts/check_wheels.py $(WHEEL_TEST)

release: setup ## everything up to the upload: checks, wheels, their tests, the files to upload (RELEASE: arguments)
	@$(PYTHON) scripts/release.py $(RELEASE)

clean: ## remove what builds wrote; .deps/ stays
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
