# polars-taiga. `make help` lists what there is to make.
#
# Everything Python lives in .venv, everything built in target/ and build/. A step that is done
# leaves a stamp, so repeating a target is quick.
#
# CUDA=1 builds the GPU kernels and what launches them too, which fetches nvcc (271 MB) where there is none. Unless
# somebody says, they are built where this machine has a GPU. `make kernels`, `make test` and `make wheel` always do.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup prepare build kernels demo examples test test-all build-tests test-rust test-python test-oldest test-cuda wheel bench lint lint-rust lint-others docs release-check clean

# One after the other, since each step takes all cores; but packages are fetched while the plugin is compiled, and `make test` has the
# linters, which leave cores idle, beside the compiler of the tests.
ifeq ($(filter prepare build-tests,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := build/oldest
ADVISORIES := cargo run --quiet --manifest-path .ci/advisories/Cargo.toml --target-dir target/advisories -- build/advisory-db
CUDA ?= $(if $(wildcard /dev/nvidiactl),1)
override CUDA := $(filter-out 0,$(CUDA))
# What the tests are built with: an integer that overflows ends the test, as does an assertion that fails. Crates of others stay as they
# are. CHECKED=1 builds the plugin so, of the same crates as the engine's tests; `make test` does.
CHECKS := CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
# Polars' two largest crates, which take columns in and give them out, would take a third of a build. Hardly optimised they take a tenth, and
# a query's answer comes some 20 us later. So tests and the demo are built; `make build`, `make kernels`, `make wheel` and the benchmarks have
# these crates as Cargo.toml says, and what they leave in .venv stays.
RELEASED ?= $(if $(CHECKED),,$(or $(filter build kernels wheel,$(MAKECMDGOALS)),$(wildcard $(VENV)/.build*-released)))
QUICK := $(if $(RELEASED),,--config profile.release.package.polars-core.opt-level=0 --config profile.release.package.polars-compute.opt-level=1)
BUILT := $(VENV)/.build$(if $(CUDA),-cuda)$(if $(CHECKED),-checked)$(if $(QUICK),,-released)
MATURIN := $(if $(CHECKED),$(CHECKS)) $(BIN)/maturin
unexport DATA TARGET
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

# With the plugin's package among them, though it has no tests, crates get the same features as in the plugin's build, and none is built twice.
PACKAGES := -p polars-taiga -p taiga-core -p taiga-cpu -p taiga-engine -p taiga-testing \
	$(if $(CUDA),-p taiga-cuda -p taiga-kernels --features taiga-engine/cuda,--no-default-features)
SOURCES := Cargo.toml Cargo.lock pyproject.toml LICENSE-THIRD-PARTY $(shell find src kernels -type f -not -path '*/tests/*' -not -path '*/benches/*')
PYTHON_SOURCES := $(shell find python -type f -name '*.py*' 2>/dev/null)

help: ## List the targets
	@echo 'polars-taiga: tree ensembles, sparse linear models and encodings as Polars expressions. Targets:'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: $(VENV)/.setup-test ## Make .venv with everything that building, testing and comparing needs

$(VENV)/.setup: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "$(PYTHON) is older than 3.10; name another one: make setup PYTHON=python3.12" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'   # the first that knows dependency groups
	$(BIN)/python -m pip install --quiet --upgrade polars --group build --group demo
	@touch $@

$(VENV)/.setup-test: $(VENV)/.setup | $(if $(CUDA),$(VENV)/.nvcc)
	$(BIN)/python -m pip install --quiet --group build --group demo --group test --group bench --group lint
	@touch $@

# nvcc as NVIDIA's Python packages, only where no other nvcc is at hand (see kernels/build.rs).
NVCC_PACKAGES := $(patsubst %,'%==13.0.*',nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl nvidia-cuda-runtime)

$(VENV)/.nvcc: $(VENV)/.setup
	test -n "$${NVCC:-}" || command -v nvcc > /dev/null || $(BIN)/python -m pip install --quiet $(NVCC_PACKAGES)
	@touch $@

build: $(BUILT) ## Build the plugin and install it into .venv

kernels: $(VENV)/.build-cuda$(if $(CHECKED),-checked)$(if $(QUICK),,-released) ## Build the plugin with its GPU kernels, where this machine has no GPU too

# One plugin lies in .venv. That with kernels serves where none are asked for.
$(VENV)/.build $(VENV)/.build-checked $(VENV)/.build-released: $(VENV)/.setup $(SOURCES)
	@rm -f $(VENV)/.build*
	$(MATURIN) develop --release --strip --no-default-features $(QUICK)
	@touch $@

$(VENV)/.build-cuda $(VENV)/.build-cuda-checked $(VENV)/.build-cuda-released: $(VENV)/.setup $(VENV)/.nvcc $(SOURCES)
	@rm -f $(VENV)/.build*
	$(MATURIN) develop --release --strip $(QUICK)
	@touch $(subst -cuda,,$@) $@

demo: build ## Run the main job on real data; your own: make demo DATA=file.csv TARGET=column
	@$(BIN)/python examples/demo.py $(if $(DATA),--data '$(DATA)') $(if $(TARGET),--target '$(TARGET)')

examples: build ## Run the numbered examples, two at a time
	@printf '%s\n' examples/[0-9]*.py | xargs -P 2 -I {} sh -c \
		'text="$$($(BIN)/python {} 2>&1)" && printf "== %s\n%s\n" {} "$$text" || { printf "%s failed:\n%s\n" {} "$$text" >&2; exit 1; }'

# Kernels for one architecture, beside the PTX of the oldest: that they compile is seen by that. `make wheel` has all.
test: export TAIGA_CUDA_ARCHITECTURES ?= 90
test: ## Lint, compile the kernels, and run every test
	$(MAKE) --no-print-directory CUDA=1 CHECKED=1 --jobs 2 prepare
	$(MAKE) --no-print-directory CUDA=1 CHECKED=1 --jobs 3 --output-sync=target lint-others lint-rust build-tests
	$(MAKE) --no-print-directory CUDA=1 CHECKED=1 test-all

prepare: build $(VENV)/.setup-test

test-all: test-rust test-python test-oldest

# Programs of tests that need a GPU are not among these (`test = false` in src/engine/Cargo.toml); clippy alone compiles them.
build-tests: $(if $(CUDA),$(VENV)/.nvcc)
	$(CHECKS) cargo test --release $(QUICK) $(PACKAGES) --no-run

ONLY ?=

test-rust: $(if $(CUDA),$(VENV)/.nvcc) ## Test the engine and the kernels, doctests included, overflows checked; some: ONLY='--test suite forest'
	$(CHECKS) cargo test --release $(QUICK) $(PACKAGES) $(ONLY)

# A file's tests in one process, since they share what they fit; in the order of tests/conftest.py.
SIDE_BY_SIDE := --numprocesses 2 --dist loadfile --no-loadscope-reorder

test-python: build $(VENV)/.setup-test ## Test the expressions with the newest Polars, and run the docstrings and the examples
	$(BIN)/python -m pytest tests $(SIDE_BY_SIDE)
	$(BIN)/python -m pytest --doctest-modules --pyargs polars_taiga
	$(MAKE) --no-print-directory examples > /dev/null

# What a plugin does whatever Polars it is loaded into: how accurate models are beside the peers', what memory they ask for, how work is
# interrupted (which Polars 1 does itself), what becomes of threads in forked processes, how processes of a fit find each other and who
# starts them, how a killed fit goes on, what models of other libraries come to, what is written of ours, and what other engines make of
# that or of Arrow arrays.
OF_THE_ENGINE := peers test_peers.py test_shap_peers.py test_position_bias.py test_defaults.py test_memory_limit.py test_interrupt.py \
	test_processes.py test_training.py test_collective.py test_collective_agreement.py test_ray.py test_dask.py test_onnx.py test_case_sql.py test_engines.py \
	test_peer_forms.py test_import.py test_import_catboost.py test_model_schema.py

test-oldest: $(OLDEST)/.setup ## Test the wheel with the oldest Polars that pyproject.toml names
	$(OLDEST)/bin/python -c 'import polars, polars_taiga as tg; print("Polars", polars.__version__, "of", polars.__file__, "with", tg.__file__)'
	$(OLDEST)/bin/python -m pytest tests $(SIDE_BY_SIDE) $(patsubst %,--ignore tests/%,$(OF_THE_ENGINE))

# The wheel goes into a second environment with the lower bound of the dependency on Polars. All else that tests import comes from the
# first one: a path to that is looked through behind what the second has of its own.
SITE := import sysconfig; print(sysconfig.get_path("purelib"))

$(OLDEST)/.setup: $(BUILT) $(VENV)/.setup-test $(PYTHON_SOURCES)
	rm -rf build/wheel $(OLDEST)
	$(MATURIN) build --release --strip $(if $(CUDA),,--no-default-features) $(QUICK) --interpreter $(BIN)/python --out build/wheel
	$(BIN)/python -m venv $(OLDEST)
	oldest="$$(sed -nE 's/.*"polars *>= *([0-9.]+).*/\1/p' pyproject.toml | head -n 1)" && test -n "$$oldest" \
		&& $(OLDEST)/bin/python -m pip install --quiet "polars==$$oldest" build/wheel/*.whl
	$(BIN)/python -c '$(SITE)' > "$$($(OLDEST)/bin/python -c '$(SITE)')/newest.pth"
	@touch $@

wheel: $(VENV)/.setup $(VENV)/.nvcc ## Build the wheel to release into dist/, kernels for all architectures inside
	TAIGA_CUDA_ARCHITECTURES= $(BIN)/maturin build --release --strip --interpreter $(BIN)/python --out dist

# The plugin is checked with the settings that maturin gives PyO3: with others, PyO3 and all of
# Polars behind it would be built again.
AS_MATURIN := PYO3_BUILD_EXTENSION_MODULE=1 PYO3_CONFIG_FILE="$$(ls -t $(CURDIR)/target/maturin/pyo3-config-*.txt | head -n 1)"

lint: build $(VENV)/.setup-test lint-others lint-rust ## Formatting, clippy, ruff, mypy, licences, advisories, layers and names of kernels

lint-others:
	cargo fmt --all -- --check
	rustfmt --edition 2024 --check src/core/losses/*.rs src/core/metrics/*.rs   # modules that a macro declares
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict python
	$(BIN)/python .ci/licenses.py check
	$(BIN)/python -m tarfile -e .ci/advisories/advisory-db.tar.xz build/advisory-db
	$(ADVISORIES) Cargo.lock fuzz/Cargo.lock loom/Cargo.lock
	! $(ADVISORIES) .ci/advisories/faulty.lock   # a fault is found
	$(BIN)/python .ci/layers.py
	$(BIN)/python .ci/site.py check
	$(BIN)/python .ci/kernels.py

lint-rust:
	$(AS_MATURIN) cargo clippy --quiet --release $(QUICK) $(PACKAGES) --all-targets -- -D warnings
	cargo clippy --quiet --release $(QUICK) -p taiga-engine -- -D warnings

# Tests of a GPU are ignored unless asked for; these are for hand: all 2^32 arguments, and times.
AT_LENGTH := f32_maths_has_the_same_bits_for_every_argument timing

test-cuda: $(VENV)/.nvcc ## Compare GPU and CPU bit by bit; fails without a GPU
	cargo test --release -p taiga-engine --features cuda --test 'cuda*' -- --include-ignored $(patsubst %,--skip %,$(AT_LENGTH))

bench: $(VENV)/.setup-test ## Measure side by side with the peers (about an hour; see benchmarks/README.md)
	$(MAKE) --no-print-directory build
	$(BIN)/python -m benchmarks.train --trees 25,50,100,200
	$(BIN)/python -m benchmarks.train --sizes 100000x200,5000x20,300x10000 --out build/benchmarks/train-sizes.jsonl
	$(BIN)/python -m benchmarks.predict
	$(BIN)/python -m benchmarks.groups
	$(BIN)/python -m benchmarks.histogram
	$(BIN)/python -m benchmarks.encoding
	$(BIN)/python -m benchmarks.forest
	$(BIN)/python -m benchmarks.sparse_lr
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.picture

# The pages are the repository's files; .ci/site.py lays them out. EXECUTED= leaves out what the examples print (minutes).
EXECUTED ?= 1

docs: build $(VENV)/.setup-test ## The documentation's site into build/docs, and rustdoc into build/docs/rust
	$(BIN)/python -m pip install --quiet --group docs
	rm -rf build/docs
	$(BIN)/python .ci/site.py lay build/site-pages $(if $(EXECUTED),--executed)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f .ci/mkdocs.yml
	# A room's own page names what it keeps to itself.
	RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' cargo doc --release --no-deps -p taiga-core -p taiga-cpu -p taiga-engine --target-dir build/doc-target
	cp -r build/doc-target/doc build/docs/rust
	echo 'build/docs/index.html, build/docs/rust/taiga_engine/index.html'

# What can be known of a release on one machine; the rest is .github/workflows/release.yml.
release-check: $(OLDEST)/.setup ## Check the version, a wheel, an sdist and what they are made of (docs/release.md)
	$(BIN)/python -m pip install --quiet --group release
	$(BIN)/python .ci/release_check.py version
	$(BIN)/python .ci/release_check.py sbom build/release/polars-taiga.cdx.json
	$(BIN)/python .ci/release_check.py wheel build/wheel/*.whl --this-glibc
	$(BIN)/python .ci/release_check.py try build/wheel/*.whl --pythons --polars oldest
	$(BIN)/python .ci/release_check.py try build/wheel/*.whl --pythons --polars newest
	$(BIN)/maturin sdist --out build/release
	$(BIN)/python .ci/release_check.py sdist build/release/*.tar.gz --build

clean: ## Remove everything that was built, .venv included
	rm -rf $(VENV) target loom/target fuzz/target build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/polars_taiga/*.so
