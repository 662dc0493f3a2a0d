# Every target does its own set-up: the control-plane tools are built when they are missing.
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## What there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: demo
demo: needs ## A mixed cluster going wrong without Mullion and right with it
	@tools="$$(tests/cluster/tools/build.sh)" && \
	$(CARGO) build --locked --bin mullion && $(CARGO) build --locked -p mullion-cluster --bin mullion-demo && \
	KUBEBUILDER_ASSETS="$$tools" target/debug/mullion-demo --mullion target/debug/mullion

POLICY ?= policies/default.yaml
.PHONY: up
up: needs ## Leave a mixed cluster with Mullion running, under POLICY=FILE; prints its kubeconfig
	@tools="$$(tests/cluster/tools/build.sh)" && \
	$(CARGO) build --locked --bin mullion && $(CARGO) build --locked -p mullion-cluster --bin mullion-demo && \
	KUBEBUILDER_ASSETS="$$tools" tests/cluster/up.sh target/up target/debug/mullion-demo --mullion target/debug/mullion --policy $(POLICY)

.PHONY: down
down: ## Stop what `make up` left running
	@tests/cluster/down.sh target/up

.PHONY: check
check: needs fmt-check clippy ## Format, lints, and every test that needs neither a cluster nor a tool that must be built
	@tests/run.sh check

.PHONY: test
test: needs fmt-check clippy doc ## Everything CI checks
	@tests/cluster/tools/build.sh >/dev/null && $(CARGO) test --locked --workspace --doc --quiet && tests/run.sh test

.PHONY: soak
soak: needs ## The long forms of the tests that find rare faults by repetition
	@tests/cluster/tools/build.sh >/dev/null && tests/run.sh soak

# Needs a C++ compiler, and compiles everything once more: about 15 minutes, the first time.
SECONDS ?= 60
.PHONY: fuzz
fuzz: needs ## Run each fuzz target for SECONDS=60; RUNS=N: that often instead
	@fuzz/run.sh $(if $(RUNS),runs $(RUNS),seconds $(SECONDS))

.PHONY: rules
rules: needs ## Write again what is made from the rule catalogue and the policy keys: policies/rules, policies/schema, docs/policy-reference.md, expected findings; and what README.md and docs show
	UPDATE_DOCS=1 $(CARGO) test --locked --test rules --test schema --test docs

# Not part of `test`: it needs npm and a network.
LANGUAGE_SERVER = yaml-language-server@1.25.0
.PHONY: editor
editor: ## Ask yaml-language-server what it makes of the schemas: completion, explanations, complaints
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 22 or newer" >&2; exit 1; }
	@test -d target/editor/$(LANGUAGE_SERVER) || npm install --silent --no-save --prefix target/editor/$(LANGUAGE_SERVER) $(LANGUAGE_SERVER)
	@node tests/editor/check.mjs target/editor/$(LANGUAGE_SERVER)/node_modules/yaml-language-server/bin/yaml-language-server

# Not part of `test`: it needs Chromium, which it installs where apt can.
.PHONY: pages
pages: needs ## Ask Chromium about the HTML report: it renders, sorts, filters, prints; screenshots in target/pages
	@chromium="$$(tests/pages/chromium.sh)" && MULLION_CHROMIUM="$$chromium" $(CARGO) test --locked --test pages

# Not part of `test`, which holds the same files against the metrics that the processes export: it needs Prometheus.
.PHONY: monitoring
monitoring: needs ## Ask promtool about the alerts, their cases and the dashboard's queries
	@command -v promtool >/dev/null || { echo "promtool is missing: it comes with Prometheus (Debian: apt-get install prometheus)" >&2; exit 1; }
	$(CARGO) test --locked --test monitoring -- --include-ignored

# Not part of `test`: it installs cargo-deny, which compiles for minutes. The database of advisories is on GitHub; without that,
# licenses, bans and sources are still checked, and the target says that advisories are not.
DENY = cargo-deny@0.20.2
.PHONY: deny
deny: needs ## Ask cargo-deny about licenses, sources, duplicates and known vulnerabilities of dependencies
	@command -v cargo-deny >/dev/null || $(CARGO) install --quiet --locked $(DENY)
	$(CARGO) deny --locked check licenses bans sources
	@if $(CARGO) deny fetch db; then $(CARGO) deny --locked --offline check advisories; else \
		echo "deny: the database of advisories cannot be reached: advisories were NOT checked" >&2; fi

# Not part of `test`: it needs ShellCheck.
.PHONY: scripts
scripts: ## Ask ShellCheck about the shell scripts
	@command -v shellcheck >/dev/null || { echo "shellcheck is missing: apt-get install shellcheck" >&2; exit 1; }
	shellcheck $$(git ls-files '*.sh')

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

.PHONY: fmt-check
fmt-check:
	$(CARGO) fmt --all --check

# Those that need tools which must be built: `test = false` in Cargo.toml, so that `cargo test` alone leaves them out.
# `--all-targets` does too, whatever is named beside it.
export CLUSTER_SUITES = on_cluster installed chart registry control_plane
.PHONY: clippy
clippy: needs
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --workspace $(CLUSTER_SUITES:%=--test %) --test pages -- -D warnings

.PHONY: doc
doc: needs
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --lib --document-private-items

# Figures for people: nothing is asserted. The webhook's take about two minutes, those on an API server a few each.
.PHONY: bench
bench: needs ## Measure the command line, policies, the webhook, admission and the controller against their budgets
	@tools="$$(tests/cluster/tools/build.sh)" && export KUBEBUILDER_ASSETS="$$tools" && \
	$(CARGO) bench --locked --bench check && \
	$(CARGO) bench --locked --bench policies && \
	$(CARGO) bench --locked --bench webhook && \
	$(CARGO) bench --locked --bench admission && \
	$(CARGO) bench --locked --bench controller

.PHONY: image
image: ## Build the container image, IMAGE=NAME:TAG or mullion:VERSION, with docker, podman or buildah, whichever works
	@release/image.sh $(IMAGE)

# Two builds with everything optimised: about ten minutes on two cores, the first time.
.PHONY: release
release: needs ## Everything of a release into target/release-files: Linux and Windows programs, chart, SBOMs, sums
	@release/needs.sh && tools="$$(tests/cluster/tools/build.sh)" && \
	release/build.sh target/release-files "$$tools/helm" && tests/release/verify.sh target/release-files "$$tools/helm"

.PHONY: tools
tools: needs ## Build the control-plane tools only
	@tests/cluster/tools/build.sh

# Says plainly what is missing instead of failing in the middle of a build.
.PHONY: needs
needs:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.89 or newer (rustup.rs)" >&2; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
		echo "a C compiler is missing: install gcc (Debian: apt-get install gcc)" >&2; exit 1; }
