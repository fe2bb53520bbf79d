# A machine needs Go, git and make for run, build, test and lint. What the
# other targets need stands beside them; .ci/run installs all of it.

GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PGO     := $(if $(wildcard profiles/default.pgo),$(abspath profiles/default.pgo),off)
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -pgo=$(PGO) -ldflags '-s -w -X main.version=$(VERSION)'

# Rooms with goroutines of their own: the race detector runs over these.
RACE := $(foreach d,internal/bufpool internal/delay obs auth quota netio logstore coord group txn broker admin kube cmd/kaas,$(if $(wildcard $(d)/*_test.go),./$(d)/...))
# The race detector links against the C library.
CC_FOUND := $(shell command -v gcc || command -v clang)

.PHONY: build run test race lint generate e2e conformance kubernetes pyroscope bench profile bench-compare bench-table bench-check bench-baseline fuzz-short nightly clean FORCE

build: kaas

# The Go tool knows what has changed, so it is always asked.
kaas: FORCE
	$(BUILD) -o kaas ./cmd/kaas
FORCE:

# A durable broker on :9092 with its data in ./kaas-data.
run: build
	./kaas broker

# TESTFLAGS=-v shows each test.
test:
	$(GO) test $(TESTFLAGS) ./...
ifeq ($(CC_FOUND),)
	@echo "no C compiler (gcc or clang): the race detector cannot run here; everything else has"
else
	$(MAKE) --no-print-directory race
endif

# With the assertions of the invariants build, too.
race:
	CGO_ENABLED=1 $(GO) test -race -tags invariants $(TESTFLAGS) $(RACE)

# gofmt, vet, staticcheck, checklocks; versions are pinned in tools/go.mod.
lint: bin/staticcheck bin/checklocks
	@unformatted="$$(gofmt -l . )"; test -z "$$unformatted" || { echo "not gofmt'd:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags e2e ./e2e/...
	$(GO) vet -tags kubernetes ./e2e/kubernetes
	$(GO) vet -tags pyroscope ./e2e/pyroscope
	$(GO) vet -tags guardtest ./cmd/... ./bench/...
	$(GO) vet -tags invariants ./internal/... ./netio/... ./codec/...
	GOARCH=arm64 $(GO) build -o /dev/null ./cmd/kaas # not every system call of one has the other
	bin/staticcheck ./...
	# Annotated locks only: checklocks also guesses, from how often a lock is held.
	$(GO) vet -vettool=$(abspath bin/checklocks) -inferred=false ./...

bin/staticcheck bin/checklocks &: tools/go.mod tools/go.sum
	$(GO) -C tools build -o $(abspath bin)/ honnef.co/go/tools/cmd/staticcheck gvisor.dev/gvisor/tools/checklocks/cmd/checklocks
	@touch bin/staticcheck bin/checklocks

# Writes docs/, deploy/crds and the table in README.md from the code; a test says when to.
generate:
	KAAS_GENERATE=1 $(GO) test -count=1 -run TestGeneratedDocuments .

# The built binary, driven by kcat, Apache Kafka's tools, clients and Streams (Java and Maven) and franz-go.
e2e: build
	KAAS_BIN=$(abspath kaas) $(GO) test -tags e2e -count=1 -v -timeout 20m ./e2e/...

# Apache Kafka's Java protocol classes and admin client against the built binary, the latter also against Apache Kafka.
conformance: build
	KAAS_BIN=$(abspath kaas) $(GO) test -tags conformance -count=1 -v -timeout 20m ./e2e/...

# A real Kubernetes API server and the built binary, each with the other's manifests. The
# first time on a machine it is built for about 10 minutes, see e2e/kubernetes/build.
kubernetes: build
	bin="$$(e2e/kubernetes/build)" && KUBERNETES_BIN="$$bin" KAAS_BIN=$(abspath kaas) $(GO) test -tags kubernetes -count=1 -v -timeout 10m ./e2e/kubernetes

# The built binary pushes its profiles to a real Pyroscope server. The first time
# on a machine that is built for about 3 minutes, see e2e/pyroscope/build.
pyroscope: build
	bin="$$(e2e/pyroscope/build)" && PYROSCOPE_BIN="$$bin/pyroscope" KAAS_BIN=$(abspath kaas) $(GO) test -tags pyroscope -count=1 -v -timeout 10m ./e2e/pyroscope

# Where kaas stands against the limits of this machine: about 19 minutes, alone. Ctrl-C keeps
# the rows of the scenarios that are through; what failed is a row and stops nothing.
# ROWS=durable,tail measures only these scenarios; ./kaas bench --list names all.
# A run in pieces is one table with make bench-table.
bench: build bin/kaas-without-profile
	./kaas bench --rows '$(ROWS)' $(BENCHFLAGS)

bin/kaas-without-profile: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -pgo=off -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/kaas

# Side by side with Apache Kafka (Java and Maven), or with the broker at RIVAL=host:port: about 11 minutes, alone.
# ROWS='storm;latency' compares only these; ./kaas bench compare --list names all.
RIVAL ?= kafka
bench-compare: build
	./kaas bench compare --rival $(RIVAL) --rows '$(ROWS)' $(BENCHFLAGS)

# The newest row of each target, of whichever run; BENCHFLAGS='--commit 190826d --all'
# INTO=docs/benchmarks.md writes the table there as well.
bench-table: build
	./kaas bench table --into '$(INTO)' $(BENCHFLAGS)

# A new profile for the build, from the scenarios of bench-compare against kaas alone.
profile: build
	./kaas bench profile --out profiles/default.pgo

# The regression guard, and the tests that show that it catches a copy, an
# allocation and a system call more. strace and valgrind count.
bench-check: build bin/kaas-valgrind
	./kaas bench check
	$(GO) test -tags guardtest -count=1 -v -run TestGuardCatches ./bench

# New baselines: make bench-baseline REASON='why the rows may move' [ONLY=gates]
bench-baseline: build bin/kaas-valgrind
	./kaas bench baseline --reason '$(REASON)' --only '$(ONLY)'

bin/kaas-valgrind: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -pgo=$(PGO) -tags valgrind -o $@ ./cmd/kaas

# Each fuzz target for a few seconds; FUZZTIME=10m for a night.
FUZZTIME ?= 5s
fuzz-short:
	@set -e; for package in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
	  done; done

# Long searches, for a night: random operations against a model, and every crash point with thousands of outcomes.
nightly: build
	$(GO) test -count=1 -timeout 3h -v -run 'TestMetamorphic|TestCompactionAgainstModel|TestCrashExplorer|TestDerivedFiles|TestExactlyOnceOverFaults' ./logstore -metamorphic.for=10m -explore.limit=5000 -derived.samples=40 -fault.stride=1
	$(GO) test -count=1 -v -timeout 10m -run 'TestStoreThatHangs' ./cmd/kaas -hang.for=1m
	KAAS_SEED=random $(GO) test -count=4 -timeout 1h -run 'TestConsumerSimulation|TestSimulation$$' ./group ./broker/coordinators
	KAAS_BIN=$(abspath kaas) $(GO) test -tags e2e -count=20 -timeout 2h ./e2e -run TestLogAsKafkas -cleaner.steps=400
	KAAS_E2E_LONG=1 KAAS_BIN=$(abspath kaas) $(GO) test -tags e2e -count=1 -parallel 8 -timeout 10m -v ./e2e -run TestDeadlinesAsKafka
	KAAS_E2E_LONG=1 KAAS_BIN=$(abspath kaas) $(GO) test -tags e2e -count=1 -timeout 1h -v ./e2e -run 'TestRandom(Groups|Transactions)AsKafka'
	KAAS_BIN=$(abspath kaas) $(GO) test -tags e2e -count=1 -v ./e2e -run TestColdReadsStallNoLoop -cold.backlog=1000000000 -cold.memory=200000000 # root, perf

clean:
	rm -rf kaas bin
