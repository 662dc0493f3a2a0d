# Every target prepares what it needs: the control-plane tools are built when they are missing.
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## List the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: demo
demo: needs ## Show a mixed cluster that fails without Mullion and works with it
	@echo "demo: builds a control plane and Mullion, then applies the same manifests without Mullion and with it. On two cores: 9 minutes the first time, 1 minute later." >&2
	@tools="$$(tests/cluster/build_demo.sh)" && \
	KUBEBUILDER_ASSETS="$$tools" target/demo/mullion-demo --mullion target/demo/mullion

POLICY ?= policies/default.yaml
.PHONY: up
up: needs ## Start a mixed cluster with Mullion and POLICY=FILE, print its kubeconfig, and leave it running
	@tools="$$(tests/cluster/build_demo.sh)" && \
	KUBEBUILDER_ASSETS="$$tools" tests/cluster/up.sh target/up target/demo/mullion-demo --mullion target/demo/mullion --policy $(POLICY)

.PHONY: down
down: ## Stop the cluster that `make up` started
	@tests/cluster/down.sh target/up

.PHONY: check
check: needs fmt-check ## Check the format and the lints, and run every test that needs neither a cluster nor a tool that must be built
	@tests/run.sh check

.PHONY: test
test: needs fmt-check clippy doc ## Run all checks and tests
	@tests/cluster/tools/build.sh >/dev/null && $(CARGO) test --locked --workspace --doc --quiet && tests/run.sh test

.PHONY: soak
soak: needs ## Run the tests that find rare faults by repetition, with many repetitions
	@tests/cluster/tools/build.sh >/dev/null && tests/run.sh soak

# Not part of `test`: each release is built first, which takes about 15 minutes, and its suites take about 10 minutes.
.PHONY: versions
versions: needs ## Run the cluster suites on each Kubernetes release that can be built here, or on KUBERNETES=1.33
	@tests/run.sh versions $(KUBERNETES)

# It needs a C++ compiler. The first run compiles everything again, which takes about 15 minutes.
SECONDS ?= 60
.PHONY: fuzz
fuzz: needs ## Run each fuzz target for SECONDS=60, or RUNS=N times
	@fuzz/run.sh $(if $(RUNS),runs $(RUNS),seconds $(SECONDS))

.PHONY: rules
rules: needs ## Update the files that are generated from the rule catalogue, the policy keys and the command line (policies/rules, policies/schema, docs/reference/policy.md and the pages of its kinds, docs/reference/flags.md, docs/reference/saved-inventory.md, docs/reference/kinds.md, expected findings), and the output shown in README.md and docs
	UPDATE_DOCS=1 $(CARGO) test --locked --workspace --test rules --test schema --test docs --test survey --test plan --test pod_templates

# Not part of `test`: it needs npm and a network.
LANGUAGE_SERVER = yaml-language-server@1.25.0
.PHONY: editor
editor: ## Test the schemas with yaml-language-server: completion, explanations, errors
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 22 or newer" >&2; exit 1; }
	@test -d target/editor/$(LANGUAGE_SERVER) || npm install --silent --no-save --prefix target/editor/$(LANGUAGE_SERVER) $(LANGUAGE_SERVER)
	@node tests/editor/check.mjs target/editor/$(LANGUAGE_SERVER)/node_modules/yaml-language-server/bin/yaml-language-server

# Not part of `test`: it needs Go, Python and their package registries.
.PHONY: packaging
packaging: needs ## Try the pre-commit hook with pre-commit, and the manifest of the kubectl plugin with krew
	@tools="$$(tests/cluster/tools/build.sh)" && $(CARGO) build --locked --bin mullion && \
	PATH="$$tools:$$PATH" packaging/try.sh target/debug/mullion

# Not part of `test`: it needs Wine and a compiler for Windows, which it installs with apt if possible, and compiles everything again.
.PHONY: windows
windows: needs ## Cross-compile the program for Windows and test it with Wine: paths, patterns, line ends, encodings
	@tests/windows/run.sh

# Not part of `test`: it needs Chromium, which it installs with apt if possible.
.PHONY: pages
pages: needs ## Test the HTML report in Chromium (rendering, sorting, filters, printing); screenshots are in target/pages
	@chromium="$$(tests/pages/chromium.sh)" && MULLION_CHROMIUM="$$chromium" $(CARGO) test --locked --test pages

# Not part of `test`: it needs Chromium, and mdBook, which it compiles in a minute or two the first time.
.PHONY: site
site: needs ## Build the documentation site into target/site/book; check its links and its search in Chromium
	@site/build.sh && chromium="$$(tests/pages/chromium.sh)" && \
	MULLION_CHROMIUM="$$chromium" MULLION_SITE=target/site/book $(CARGO) test --locked --test site

# Not part of `test`: it needs Prometheus. `test` compares the same files with the metrics that the processes export.
.PHONY: monitoring
monitoring: needs ## Test the alerts, their cases and the dashboard's queries with promtool
	@command -v promtool >/dev/null || { echo "promtool is missing: it comes with Prometheus (Debian: apt-get install prometheus)" >&2; exit 1; }
	$(CARGO) test --locked --test monitoring -- --include-ignored

# Not part of `test`: it installs cargo-deny, and compiling that takes minutes. The database of advisories is on GitHub. Without
# access to it, licenses, bans and sources are still checked, and the target reports that advisories are not.
DENY = cargo-deny@0.20.2
.PHONY: deny
deny: needs ## Check licenses, sources, duplicates and known vulnerabilities of dependencies with cargo-deny
	@command -v cargo-deny >/dev/null || $(CARGO) install --quiet --locked $(DENY)
	$(CARGO) deny --locked check licenses bans sources
	@if $(CARGO) deny fetch db; then $(CARGO) deny --locked --offline check advisories; else \
		echo "deny: the database of advisories cannot be reached: advisories were NOT checked" >&2; fi

# Not part of `test`: it needs ShellCheck.
.PHONY: scripts
scripts: ## Check the shell scripts with ShellCheck
	@command -v shellcheck >/dev/null || { echo "shellcheck is missing: apt-get install shellcheck" >&2; exit 1; }
	shellcheck $$(git ls-files '*.sh')

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all

.PHONY: fmt-check
fmt-check:
	$(CARGO) fmt --all --check

# The suites that need tools which must be built first. They have `test = false` in Cargo.toml, so `cargo test` leaves them
# out. So does `--all-targets`, even together with `--test`.
export CLUSTER_SUITES = on_cluster installed chart registry control_plane
.PHONY: clippy
clippy: needs
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --workspace $(CLUSTER_SUITES:%=--test %) --test pages --test site --test windows -- -D warnings

.PHONY: doc
doc: needs
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --lib --document-private-items

# The benchmarks print measurements and assert nothing. The webhook's takes about two minutes, each one on an API server a few.
.PHONY: bench
bench: needs ## Measure the command line, policies, the webhook, admission and the controller against their budgets
	@tools="$$(tests/cluster/tools/build.sh)" && export KUBEBUILDER_ASSETS="$$tools" && \
	$(CARGO) bench --locked --bench check && \
	$(CARGO) bench --locked --bench policies && \
	$(CARGO) bench --locked --bench webhook && \
	$(CARGO) bench --locked --bench admission && \
	$(CARGO) bench --locked --bench controller

.PHONY: image
image: ## Build the container image, IMAGE=NAME:TAG or mullion:VERSION, with docker, podman or buildah; FROM=host pulls no base image
	@FROM=$(FROM) release/image.sh $(IMAGE)

# Three optimized builds. The first run takes about 20 minutes on two cores.
.PHONY: release
release: needs ## Build a release in target/release-files: programs for Linux and Windows, image, chart, SBOMs, checksums
	@release/placeholders.sh && release/needs.sh && tools="$$(tests/cluster/tools/build.sh)" && \
	release/build.sh target/release-files "$$tools" && tests/release/verify.sh target/release-files "$$tools/helm" && \
	tests/release/tampered.sh target/release-files

# Not part of `release`: it compiles everything again.
.PHONY: reproduce
reproduce: needs ## Build the commit again in another folder, and compare with FOLDER=target/release-files
	@release/needs.sh && tools="$$(tests/cluster/tools/build.sh)" && tests/release/reproduce.sh $(or $(FOLDER),target/release-files) "$$tools"

.PHONY: release-tools
release-tools: ## Install the tools that `make release` needs, on Debian and as root
	@release/needs.sh --install

.PHONY: manifests
manifests: needs ## Write plain manifests and a kustomize base into target/manifests, with REPOSITORY=registry.example.com/mullion POLICIES=audit or VALUES=FILE
	@tools="$$(tests/cluster/tools/build.sh)" && REPOSITORY="$(REPOSITORY)" POLICIES="$(POLICIES)" packaging/manifests.sh target/manifests "$$tools/helm" $(VALUES) && \
	echo "target/manifests:" && ls target/manifests

# Not part of `test`: it builds Helm 3, which takes a few minutes the first time.
.PHONY: helm3
helm3: needs ## Test the chart with Helm 3: install, upgrade, rollback, uninstall
	@tools="$$(tests/cluster/tools/build.sh)" && helm="$$(tests/cluster/tools/helm3/build.sh)" && \
	KUBEBUILDER_ASSETS="$$tools" HELM3="$$helm" $(CARGO) test --locked --test chart --test installed -- helm_3

# Not part of `test`: it builds another Mullion, which takes about ten minutes the first time.
.PHONY: skew
skew: needs ## Run this release and the next one in one cluster: webhook beside controller, upgrade, rollback, newer policies
	@tools="$$(tests/cluster/tools/build.sh)" && next="$$(tests/skew/build.sh)" && \
	KUBEBUILDER_ASSETS="$$tools" MULLION_NEXT="$$next" $(CARGO) test --locked --test installed -- skew

# Not part of `test`: it builds Flux's controllers, which takes about ten minutes the first time.
.PHONY: flux
flux: needs ## Run Flux's helm-controller and kustomize-controller beside Mullion
	@tools="$$(tests/cluster/tools/build.sh)" && flux="$$(tests/gitops/build.sh)" && \
	KUBEBUILDER_ASSETS="$$tools" MULLION_FLUX="$$flux" $(CARGO) test --locked --test installed -- flux

# Not part of `test`: it builds Karpenter, which takes a few minutes the first time.
.PHONY: karpenter
karpenter: needs ## Start Windows pools at zero with Karpenter's KWOK provider, with and without Mullion, and print the nodes for nothing
	@tools="$$(tests/cluster/tools/build.sh)" && karpenter="$$(tests/karpenter/build.sh)" && \
	KUBEBUILDER_ASSETS="$$tools" MULLION_KARPENTER="$$karpenter" $(CARGO) test --locked --test on_cluster -- karpenter

.PHONY: tools
tools: needs ## Build the control-plane tools only
	@tests/cluster/tools/build.sh

# Reports what is missing before a build starts.
.PHONY: needs
needs:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.89 or newer (rustup.rs)" >&2; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
		echo "a C compiler is missing: install gcc (Debian: apt-get install gcc)" >&2; exit 1; }
