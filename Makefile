# SPDX-License-Identifier: Apache-2.0
# Everything here builds from source with Go, gcc, git and make alone; the tools it runs are Go modules in hack/tools.
# The first build of all takes a quarter of an hour on two cores; later ones take seconds.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# One `go build` uses every core already; several at once only use more memory.
.NOTPARALLEL:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.1.0)
KUBE_VERSION := v1.34.1
HELM_VERSION := v3.18.6
# Images are IMAGE_REGISTRY/NAME:IMAGE_TAG, by default what the chart asks for (image.registry and image.tag of its values).
CHART := config/charts/volcano-prebind
IMAGE_REGISTRY ?= $(shell sed -n 's/^  registry: //p' $(CHART)/values.yaml)
IMAGE_TAG ?= $(shell sed -n 's/^appVersion: //p' $(CHART)/Chart.yaml)
# docker, podman or buildah; the first that works here unless given.
export IMAGE_BUILDER ?=
# Arguments for the targets that run a program: make demo ARGS="--nodes 50".
ARGS ?=
# How many random sets of objects are tried. It is a number, not a time: when a time is over, Go 1.26 may report "context deadline
# exceeded" as a failure (golang/go#75804).
FUZZ_RUNS ?= 250
# How long the tests on a real control plane may take in all.
E2E_TIMEOUT ?= 60m
# E2E_OUTAGE_ROUNDS is how many outages of the API server they go through, three unless given; E2E_VOLUME_ROUNDS how many rounds of random
# faults while volumes are made, as many.

KUBE_LDFLAGS := $(foreach p,client-go/pkg/version component-base/version,\
	-X k8s.io/$(p).gitVersion=$(KUBE_VERSION) -X k8s.io/$(p).gitMajor=1 -X k8s.io/$(p).gitMinor=34 -X k8s.io/$(p).gitTreeState=clean)
OUR_LDFLAGS := -X volcano.sh/volcano/pkg/version.Version=$(VERSION)
HELM_LDFLAGS := -X helm.sh/helm/v3/internal/version.version=$(HELM_VERSION) \
	-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34

# build FOLDER,OUTPUT,PACKAGE,LDFLAGS,HOW LONG FROM A COLD CACHE
define build
	@echo "building $(2) ($(5) the first time)"
	@began=$$SECONDS; cd $(1) && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(4)" -o $(CURDIR)/$(2) $(3) \
		&& touch $(CURDIR)/$(2) && echo "  $(2) is ready ($$((SECONDS - began)) s)"
endef

OURS := bin/vc-scheduler bin/vc-controller-manager bin/vc-webhook-manager bin/vc-sandbox
CONTROL_PLANE := bin/etcd bin/kube-apiserver bin/kube-controller-manager bin/kwok
GENERATORS := bin/controller-gen bin/client-gen bin/lister-gen bin/informer-gen
OTHERS := bin/kubectl bin/kube-scheduler bin/upstream-vc-scheduler bin/helm $(GENERATORS) bin/golangci-lint
SOURCES := go.mod go.sum $(shell find cmd pkg internal config/*.go $(CHART)/files -type f \( -name '*.go' -not -name '*_test.go' -o -name '*.yaml' -o -name '*.conf' \) 2>/dev/null)

# Packages with goroutines are tested under the race detector; those that need a control plane are test-e2e's.
RACE := ./pkg/... ./internal/controlplane/faultproxy/... ./internal/outage ./internal/pause ./cmd/vc-controller-manager
PLAIN = $(shell go list ./... | grep -v -e /pkg/ -e /internal/controlplane -e /test/e2e -e /internal/outage -e /internal/pause -e /cmd/vc-controller-manager)
# ARGS are for the specs alone.
REAL := $(if $(ARGS),./test/e2e,./internal/controlplane ./test/e2e/...)

##@ General

.PHONY: help
help: ## Say what the targets do.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(OURS) ## Build our binaries into bin/.

.PHONY: tools
tools: $(CONTROL_PLANE) $(OTHERS) ## Build every tool into bin/: control plane, upstream's scheduler, generators, linter.

.PHONY: image
image: ## Build the images of the three daemons, IMAGE_REGISTRY/NAME:IMAGE_TAG, with docker, podman or buildah.
	hack/image.sh $(IMAGE_REGISTRY) $(IMAGE_TAG) $(VERSION) $(filter-out vc-sandbox,$(notdir $(OURS)))

.PHONY: demo
demo: $(OURS) $(CONTROL_PLANE) ## Run scenarios with gangs on a real control plane and check their outcomes.
	bin/vc-sandbox demo $(ARGS)

.PHONY: sandbox
sandbox: $(OURS) $(CONTROL_PLANE) bin/kubectl ## Start a control plane with our scheduler to play with; Ctrl-C ends it.
	bin/vc-sandbox up $(ARGS)

.PHONY: clean
clean: ## Remove bin/.
	rm -rf bin

##@ Testing

.PHONY: test
test: test-unit test-e2e ## Run all tests: test-unit, test-e2e, then three minutes of soak.
	$(MAKE) soak MINUTES=3

.PHONY: test-unit
test-unit: ## Run the unit tests, with the race detector where there are goroutines and random tests in a short form, then the fuzz test.
	@echo "unit tests (building them under the race detector takes minutes the first time; random tests in their $(if $(TEST_LONG),long,short) form)"
	go test -race -timeout $(if $(TEST_LONG),120m,30m) $(RACE)
	go test -timeout $(if $(TEST_LONG),120m,30m) $(PLAIN) ./pkg/scheduler/devices
	go test -run '^TestACyclesWorkIsLinearInATenantsInput$$' ./pkg/scheduler/app # counts allocations
	@$(MAKE) --no-print-directory fuzz

.PHONY: test-long
test-long: ## Run the unit tests with random, model and differential tests in their long form (go test -v says how many rounds).
	TEST_LONG=1 $(MAKE) test-unit

.PHONY: fuzz
fuzz: ## Look for PodGroups, pods, queues, nodes and HyperNodes that stop others, in FUZZ_RUNS (250) random sets.
	@mkdir -p bin
	go test -c -o bin/fuzz.test ./pkg/scheduler/app # without coverage: instrumenting all of Kubernetes takes longer than the fuzzing
	cd pkg/scheduler/app && ../../../bin/fuzz.test -test.run '^$$' -test.fuzz FuzzNoObjectStopsOthers \
		-test.fuzztime $(FUZZ_RUNS)x -test.parallel 1 -test.fuzzcachedir ../../../bin/fuzz

.PHONY: test-e2e
test-e2e: $(OURS) $(CONTROL_PLANE) bin/kubectl bin/helm bin/e2e-scheduler bin/e2e-provisioner ## Run the tests on a real control plane, each with real processes.
	go test -count=1 -p 1 -timeout $(E2E_TIMEOUT) $(REAL) $(ARGS)

# How long soak breaks things.
MINUTES ?= 60

.PHONY: soak
soak: $(OURS) $(CONTROL_PLANE) bin/e2e-scheduler ## Break things at random on a real control plane for MINUTES (60) and check that the scheduler keeps its promises.
	go run ./test/soak --minutes $(MINUTES) $(ARGS)

.PHONY: attack
attack: $(OURS) $(CONTROL_PLANE) ## Attack as a tenant in 43 ways on a real control plane and check that a victim and the scheduler do not suffer (10 minutes).
	go run ./test/attack $(ARGS)

.PHONY: conformance
conformance: $(OURS) $(CONTROL_PLANE) bin/kube-scheduler ## Run upstream's own suites and unit tables against this build (35 minutes); ARGS makes it a part of them.
	go run ./test/conformance $(or $(ARGS),--docs docs/conformance.md)

.PHONY: deflake
deflake: ## Run the unit tests in random order, as test-unit does, until one fails, or RUNS times (20).
	@for i in $$(seq $${RUNS:-20}); do echo "run $$i"; go test -race -shuffle=on -count=1 $(RACE) && go test -shuffle=on -count=1 $(PLAIN) || exit 1; done

# Packages that have benchmarks.
BENCHED = $(sort $(dir $(shell grep -rl '^func Benchmark' --include='*_test.go' ./pkg)))

.PHONY: bench
bench: ## Run the in-process benchmarks: those of packages, our allocate beside upstream's (10 minutes), then bench-devices; ARGS are for allocate, and leave the last out.
	go test -run '^$$' -bench . -skip '^BenchmarkSession$$' -benchmem $(BENCHED)
	@# Each size in a process of its own, whose resident memory counts.
	@for size in 1000-5000 5000-50000 10000-100000; do for what in unchanged changing; do \
		go test -run '^$$' -benchtime 3x -bench "^BenchmarkSession$$/^$$size$$/^$$what$$" ./pkg/scheduler/cache | grep '^Benchmark'; done; done
	go run ./test/benchmark/allocate $(ARGS)
	$(if $(ARGS),,@$(MAKE) --no-print-directory bench-devices)

.PHONY: bench-devices
bench-devices: ## Measure how GPUs and NICs are given to pods, beside upstream's vGPU mode (5 minutes).
	go run ./test/benchmark/devices $(ARGS)

# Gangs that share an InfiniBand cluster each: large ones with a lone one behind them, and small ones.
IB_BENCH := --nodes 5000 --ib-clusters 40 --schedulers ours --mode pglast
# Pods with a claim each: three runs, since controllers that bind the claims take most of the machine.
CLAIMS_BENCH := --schedulers upstream,kube,ours --gangs 20 --gang-size 50 --runs 3 --lone-gangs 5 --idle 0s
# Gangs that preempt in a full cluster.
PREEMPT_BENCH := --filler-cpus 4 --schedulers upstream,ours,raw --gangs 20 --gang-size 50

.PHONY: bench-e2e
bench-e2e: $(OURS) $(CONTROL_PLANE) bin/kube-scheduler bin/upstream-vc-scheduler bin/e2e-provisioner ## Compare with upstream's scheduler and kube-scheduler, end to end; ARGS makes it one run of your own.
ifdef ARGS
	go run ./test/benchmark/e2e $(ARGS)
else
	@failed=0; for args in "" "$(IB_BENCH) --gangs 3 --gang-size 1000 --lone-gangs 3 --lone-size 1000" "$(IB_BENCH) --gangs 750 --gang-size 4" \
		"$(CLAIMS_BENCH) --claims volumes" "$(CLAIMS_BENCH) --claims devices" "$(PREEMPT_BENCH)"; do \
		go run ./test/benchmark/e2e $$args || failed=1; done; exit $$failed
endif

# The folder of Alibaba's cluster-trace-gpu-v2023; without one a synthetic trace of the same shape is run.
TRACE ?=

.PHONY: bench-trace
bench-trace: ## Print how much of a cluster's GPUs each strategy of deviceshare allocates, of the trace in the folder TRACE or of a synthetic one.
	go run ./test/benchmark/trace $(if $(TRACE),--trace $(TRACE) --bar 95.3) $(ARGS)

##@ Checking

.PHONY: lint
lint: bin/golangci-lint ## Run the linters, and check the size of types and the language of comments and pages.
	bin/golangci-lint run ./...
	go run ./hack/typesize
	go run ./hack/words

.PHONY: generate
generate: $(GENERATORS) bin/helm ## Write CRDs, code of our types, the rendered chart, docs/configuration.md, docs/metrics.md and docs/pictures.
	hack/generate.sh .

.PHONY: verify
verify: $(GENERATORS) bin/helm bin/vc-scheduler ## Check pages, generated files, formatting, module files, confs and the chart.
	hack/verify.sh

##@ Binaries

$(OURS): bin/%: $(SOURCES)
	$(call build,.,$@,./cmd/$*,$(OUR_LDFLAGS),3 minutes)

# Our scheduler with plugins that fail when a test tells them to.
bin/e2e-scheduler: $(SOURCES) $(shell find test/e2e -name '*.go' -not -name '*_test.go' -not -path '*/provisioner/*' 2>/dev/null)
	$(call build,.,$@,./test/e2e/testscheduler,,seconds)

# What makes volumes in tests, a module of its own.
bin/e2e-provisioner: test/e2e/provisioner/main.go test/e2e/provisioner/go.mod test/e2e/provisioner/go.sum
	$(call build,test/e2e/provisioner,$@,.,,a minute)

bin/upstream-vc-scheduler: go.mod go.sum
	$(call build,.,$@,volcano.sh/volcano/cmd/scheduler,,a minute or 3)

KUBE_MOD := hack/tools/kubernetes
bin/etcd: $(KUBE_MOD)/go.mod $(KUBE_MOD)/go.sum
	$(call build,$(KUBE_MOD),$@,go.etcd.io/etcd/server/v3,,40 seconds)

bin/kube-apiserver: $(KUBE_MOD)/go.mod $(KUBE_MOD)/go.sum
	$(call build,$(KUBE_MOD),$@,k8s.io/kubernetes/cmd/kube-apiserver,$(KUBE_LDFLAGS),3 minutes)

bin/kube-controller-manager bin/kube-scheduler bin/kubectl: bin/%: $(KUBE_MOD)/go.mod $(KUBE_MOD)/go.sum
	$(call build,$(KUBE_MOD),$@,k8s.io/kubernetes/cmd/$*,$(KUBE_LDFLAGS),a minute)

bin/kwok: hack/tools/kwok/go.mod hack/tools/kwok/go.sum
	$(call build,hack/tools/kwok,$@,sigs.k8s.io/kwok/cmd/kwok,,2 minutes)

bin/helm: hack/tools/helm/go.mod hack/tools/helm/go.sum
	$(call build,hack/tools/helm,$@,helm.sh/helm/v3/cmd/helm,$(HELM_LDFLAGS),3 minutes)

bin/controller-gen: hack/tools/codegen/go.mod hack/tools/codegen/go.sum
	$(call build,hack/tools/codegen,$@,sigs.k8s.io/controller-tools/cmd/controller-gen,,30 seconds)

bin/client-gen bin/lister-gen bin/informer-gen: bin/%: hack/tools/codegen/go.mod hack/tools/codegen/go.sum
	$(call build,hack/tools/codegen,$@,k8s.io/code-generator/cmd/$*,,10 seconds)

bin/golangci-lint: hack/tools/lint/go.mod hack/tools/lint/go.sum
	$(call build,hack/tools/lint,$@,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,,5 minutes)
