# queue-sidecar. `make help` lists the targets.
#
#   SANITIZER=address|undefined|thread  builds into build/<sanitizer>/ (address,undefined together works too)
#   CC=clang                            builds with clang
#   ARCH=arm64                          compiles into build/arm64, for another machine, with the libraries of build/arm64/root (tests/arm64/run.sh makes it)
#   V=1                                 prints each command
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
SHELL := /bin/sh
ifeq ($(origin CC),default)
CC := gcc
endif
comma := ,
Q := $(if $(V),,@)
# A line for every fifty compiled files: for a make that a person runs, unless it is silent, and where PROGRESS=yes asks for it.
PROGRESS ?= $(if $(MAKELEVEL:0=)$(findstring s,$(firstword -$(MAKEFLAGS))),,yes)
SANITIZER ?=
B := build$(if $(SANITIZER),/$(subst $(comma),-,$(SANITIZER)))
OWN_CC := $(CC)
ARCH ?=
ifeq ($(ARCH),arm64)
B := build/arm64
CC := $(CC:%gcc=%aarch64-linux-gnu-gcc) --sysroot=$(CURDIR)/$(B)/root
export PKG_CONFIG_SYSROOT_DIR := $(CURDIR)/$(B)/root
export PKG_CONFIG_LIBDIR := $(PKG_CONFIG_SYSROOT_DIR)/usr/lib/aarch64-linux-gnu/pkgconfig
endif
# Between releases VERSION ends with -dev, and a build adds its commit: 0.2.0-dev+g1a2b3c4d5. RELEASED is the day of the last release.
VERSION := 0.2.0-dev
RELEASED := 2026-11-22
BUILD_VERSION := $(VERSION)$(if $(filter %-dev,$(VERSION)),$(shell sh sidecar/commit.sh))
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
TEST_ROUNDS ?= 10
CHAOS_SECONDS ?= 900
FUZZ_SECONDS ?= 120

PKGS := hiredis libconfig sqlite3 nettle
PKG_CONFIG ?= pkg-config
PKG_LIBS = $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
SAN := $(if $(SANITIZER),-fsanitize=$(SANITIZER) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
# The tests' own code is not optimized: optimizing it takes three quarters of the compiler's time.
CFLAGS ?= $(if $(SANITIZER),-O1,-O2) -g
TEST_CFLAGS ?= -O0
CPPFLAGS_ALL := -D_GNU_SOURCE -Isidecar -I$(B)/gen $(CPPFLAGS)
CFLAGS_ALL = -std=c11 $(WARN) $(CFLAGS) $(SAN) -fstack-protector-strong -pthread $(CPPFLAGS_ALL)
LDFLAGS_ALL = $(SAN) -pthread -Wl,-z,relro,-z,now $(LDFLAGS)
LIBS_ALL = $(PKG_LIBS) -lm

SRC := $(sort $(shell find sidecar -name '*.c'))
LUA := $(sort $(shell find sidecar -name "*.lua" ! -path "*/prologue/*"))
PROLOGUE := $(shell find sidecar -path "*/prologue/*.lua")
SQL := $(sort $(wildcard sql/[0-9][0-9][0-9]_*.sql))
OBJ := $(SRC:%.c=$(B)/%.o)
GEN_OBJ := $(B)/gen/scripts.o $(B)/gen/sql.o $(B)/gen/texts.o $(B)/gen/page.o
LIB_OBJ := $(filter-out $(B)/sidecar/main.o,$(OBJ)) $(GEN_OBJ)
TEST_SRC := $(sort $(shell find tests -name '*.c' ! -name 'shim_*.c' ! -path 'tests/bench/*' ! -path 'tests/fuzz/*' ! -path 'tests/kubernetes/*'))
TEST_OBJ := $(TEST_SRC:%.c=$(B)/%.o)
SHIMS := $(patsubst tests/support/%.c,build/tests/%.so,$(wildcard tests/support/shim_*.c))
BENCHES := $(patsubst tests/bench/%.c,build/tests/bench_%,$(wildcard tests/bench/*.c))
PEER_TOOLS := $(patsubst tests/bench/%.c,build/tests/bench_%,$(wildcard tests/bench/peers/*.c))

.PHONY: all
all: $(B)/queue-sidecar ## builds build/queue-sidecar

$(B)/queue-sidecar: $(OBJ) $(GEN_OBJ)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL)

# Directories and version that the program must know. A file is replaced only when it changes, so that no object is rebuilt for
# nothing.
$(B)/gen/paths.h: FORCE
	@mkdir -p $(@D)
	@echo '#define QS_SYSCONFDIR "$(SYSCONFDIR)"' >$@.tmp; if cmp -s $@.tmp $@; then rm $@.tmp; else mv $@.tmp $@; fi

$(B)/gen/version.h: FORCE
	@mkdir -p $(@D)
	@echo '#define QS_VERSION "$(BUILD_VERSION)"' >$@.tmp; if cmp -s $@.tmp $@; then rm $@.tmp; else mv $@.tmp $@; fi

.PHONY: version
version: ## prints the version of a build from this tree
	@echo '$(BUILD_VERSION)'

# Other flags rebuild every object: a program half of which is not optimized would give wrong figures.
$(B)/gen/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CFLAGS) $(CPPFLAGS) $(TEST_CFLAGS) $(SAN)' >$@.tmp; if cmp -s $@.tmp $@; then rm $@.tmp; else mv $@.tmp $@; fi

.PHONY: FORCE
FORCE:

ALL_OBJ = $(words $(OBJ) $(TEST_OBJ))
report_progress = $(eval COMPILED += .)$(if $(filter %00 %50,$(words $(COMPILED))),$(info compiled $(words $(COMPILED)) files; the tree has $(ALL_OBJ)))

$(B)/%.o: %.c Makefile $(B)/gen/flags | $(B)/gen/paths.h $(B)/gen/version.h $(B)/gen/scripts.c
	@$(if $(PROGRESS),$(report_progress))mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# Each script becomes a script_t in scripts.c, and each folder with scripts gets a header scripts.h that declares them.
$(B)/gen/scripts.c: $(LUA) $(PROLOGUE) sidecar/queue/lua/embed.sh
	@mkdir -p $(@D)
	$(Q)sh sidecar/queue/lua/embed.sh $(@D) $(LUA)

$(B)/gen/sql.c: $(SQL) sql/embed.sh
	@mkdir -p $(@D)
	$(Q)sh sql/embed.sh $(SQL) >$@.tmp && mv $@.tmp $@

# Manual pages: sed fills in version and config path, then scdoc renders. Afterwards sed turns each - into \-, which a reader can
# copy and paste, and repeats scdoc's .nh after .TH, which undoes it.
MAN := $(B)/gen/queue-sidecar.1 $(B)/gen/queue-sidecar.cfg.5
$(MAN): $(B)/gen/%: docs/man/%.scd Makefile $(B)/gen/paths.h
	@mkdir -p $(@D)
	@command -v scdoc >/dev/null || { echo "make: scdoc is missing, which renders the manual pages: make deps installs it" >&2; exit 1; }
	@sed -e 's|@VERSION@|$(VERSION)|' -e 's|@CONFIG@|$(SYSCONFDIR)/queue-sidecar/queue-sidecar.cfg|' $< | \
	    SOURCE_DATE_EPOCH=$$(date -u -d $(RELEASED) +%s) scdoc >$@.raw
	@sed -e '/^\./!s/-/\\-/g' -e 's/^\.TH .*/&\n.nh\n.ad l/' $@.raw >$@ && rm $@.raw

TEXTS := man_program=$(B)/gen/queue-sidecar.1 man_config=$(B)/gen/queue-sidecar.cfg.5 \
    complete_bash=sidecar/cli/complete.bash complete_zsh=sidecar/cli/complete.zsh
$(B)/gen/texts.c: $(MAN) $(wildcard sidecar/cli/complete.*sh) sidecar/cli/embed.sh
	@sh sidecar/cli/embed.sh $(TEXTS) >$@.tmp && mv $@.tmp $@

$(B)/gen/page.c: $(filter-out %.c %.h,$(wildcard sidecar/page/*))
	@mkdir -p $(@D)
	$(Q)sh sidecar/page/embed.sh $(@D)/page >$@.tmp && mv $@.tmp $@

$(GEN_OBJ): $(B)/gen/%.o: $(B)/gen/%.c $(B)/gen/flags
	$(Q)$(CC) $(CFLAGS_ALL) -Wno-overlength-strings -c -o $@ $<

# The tests' wait macros return a value that some tests ignore.
$(TEST_OBJ): CFLAGS_ALL += -Itests -Itests/support -Wno-missing-prototypes -Wno-unused-value $(TEST_CFLAGS)

# One Criterion binary has every test, so the output ends with one summary. Each test is a process that executes it again: without
# PIE it starts without relocations, of which the sanitizers need 15 MB.
$(B)/tests/suite: $(TEST_OBJ) $(LIB_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -no-pie -o $@ $^ $(LIBS_ALL) -lcriterion -lgnutls

# The program as it is shipped, but with failpoints: QS_CRASH_AT ends it at a named point.
$(B)/tests/queue-sidecar: $(OBJ) $(GEN_OBJ) $(B)/tests/support/failpoint.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL)

# Preload shims for the redis-server of a test; never linked into the product, never sanitized.
build/tests/shim_%.so: tests/support/shim_%.c
	@mkdir -p $(@D)
	$(Q)$(OWN_CC) -std=c11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -fPIC -shared -o $@ $< -ldl

# Benchmark tools: clients that share no code with the program.
build/tests/bench_%: tests/bench/%.c $(wildcard tests/bench/*.h) Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 -g $(WARN) -D_GNU_SOURCE -o $@ $< -lhiredis -lsqlite3 -lpthread -lm

# The test binary and everything that tests run or load.
.PHONY: suite
suite: all $(B)/tests/suite $(B)/tests/queue-sidecar $(SHIMS)

-include $(OBJ:.o=.d) $(TEST_OBJ:.o=.d)

.PHONY: deps run demo bench bench-api bench-peers
deps: ## installs by apt missing packages for the build and the demo
	@sh deploy/deps.sh

run: all ## runs the sidecar with conf/minimal.cfg, on the Redis of this machine
	$(B)/queue-sidecar run -c conf/minimal.cfg

demo: deps ## delayed jobs fall due, a leader is killed, another takes over: all on a private Redis
	@$(MAKE) -s -j2 all
	@sh deploy/demo.sh $(B)/queue-sidecar

bench: all $(BENCHES) ## runs the benchmarks of docs/benchmarks.md
	sh tests/bench/run.sh $(B)/queue-sidecar build/tests

bench-api: all ## measures page and API (BENCH_BASE=PROGRAM: an earlier one, to compare size and memory)
	python3 tests/bench/api.py $(B)/queue-sidecar $(BENCH_BASE)

bench-peers: all $(PEER_TOOLS) ## compares with Bull, BullMQ, asynq and others (downloads them), and rewrites its figures in docs/
	sh tests/bench/peers/run.sh $(B)/queue-sidecar build/tests
	@python3 tests/check/docs.py --write

# Filter of tests for Criterion, such as T='unit_scan/*'; empty = all tests.
T ?=

.PHONY: test test-unit test-redis test-daemon test-all test-rest test-long chaos mutants test-debian13 test-redis62 cover
test: ## installs missing packages, builds, and runs the whole suite (T='unit_scan/*': only these tests)
	@sh deploy/deps.sh suite
	@$(MAKE) -s -j2 SANITIZER= PROGRESS=yes suite
	@sh tests/check/suite.sh $(if $(T),'$(T)')

test-unit: ## only the tests of functions: takes seconds
test-redis: ## only the tests that call functions against a redis-server
test-daemon: ## only the tests of the whole program
test-unit test-redis test-daemon: test-%:
	@$(MAKE) -s -j2 PROGRESS=yes suite
	@sh tests/check/suite.sh '$*_*/*'

test-all: ## the suite, then checks, sanitizers, Debian 13, manifests, image, clients in other languages: half an hour
	@failed=; $(MAKE) test || failed=yes; $(MAKE) test-rest || failed=yes; [ -z "$$failed" ]

test-rest:
	@sh deploy/deps.sh test
	@MAKE="$(MAKE)" sh tests/check/stages.sh

test-long: ## the whole suite, TEST_ROUNDS times, then the tests that have a long form in that form, then mutants
	@sh deploy/deps.sh test
	@sh deploy/deps.sh kubernetes
	@MAKE="$(MAKE)" TEST_ROUNDS=$(TEST_ROUNDS) sh tests/check/stages.sh long

chaos: ## faults hit sidecars, Redis, workers and operators for CHAOS_SECONDS; then every job is accounted for (CHAOS_SEED=N repeats it)
	@sh deploy/deps.sh suite
	@$(MAKE) -s -j2 SANITIZER= suite
	@CHAOS_SECONDS=$(CHAOS_SECONDS) build/tests/suite -j1 --filter 'daemon_chaos/*' </dev/null

mutants: ## breaks the lines of tests/check/mutants.list, one at a time; tests must fail (MUTANT=promote: only lines or files with this)
	@sh deploy/deps.sh suite
	@$(MAKE) -s -j2 SANITIZER= suite
	@MAKE="$(MAKE)" python3 tests/check/mutants.py $(if $(MUTANT),'$(MUTANT)')

test-debian13: ## the whole suite inside a Debian 13 root: its libraries, its Redis 8 and its Valkey (as root)
	@sh deploy/deps.sh test
	@sh tests/check/debian13_suite.sh

test-redis62: ## the tests that call functions against a redis-server, with Redis 6.2
	@$(MAKE) -s -j2 SANITIZER= suite
	@sh tests/check/redis62_suite.sh

.PHONY: test-page
test-page: ## tests the page in a Chromium: journeys, hostile texts, accessibility; screenshots in build/page (T=PATTERN: only these)
	@sh deploy/deps.sh page
	@$(MAKE) -s -j2 SANITIZER= PROGRESS=yes all
	@sh tests/page/run.sh $(if $(T),'$(T)')

.PHONY: test-api
test-api: ## compares the API with its description by schemathesis, for a minute (SEED=7: other requests)
	@sh deploy/deps.sh suite
	@$(MAKE) -s -j2 SANITIZER= PROGRESS=yes all
	@sh tests/http/schemathesis.sh $(SEED)

.PHONY: test-recipes
test-recipes: ## runs the recipes of docs/recipes.md: PostgreSQL, DuckDB, Datasette, Litestream (T=postgres: only this one)
	@sh deploy/deps.sh recipes
	@$(MAKE) -s -j2 SANITIZER= PROGRESS=yes all
	@sh tests/recipes/run.sh $(T)

.PHONY: pictures
pictures: ## makes the pictures of README anew: docs/page-*.png, docs/status.svg
	@sh deploy/deps.sh page
	@$(MAKE) -s all
	@sh tests/page/run.sh --pictures docs

.PHONY: test-helm
test-helm: ## renders the charts by Helm, and compares them with the kustomize components; the first time builds helm, for minutes
	@sh deploy/deps.sh helm
	@$(MAKE) -s -j2 SANITIZER= PROGRESS=yes all
	@sh tests/helm/check.sh

.PHONY: image image-test test-kubernetes
image: ## builds the container image for amd64 and arm64 with buildah, on a Debian 13 of this machine's own mirror (as root)
	@sh deploy/deps.sh image
	@sh deploy/image/build.sh

image-test: ## builds the image and tests it under podman: files, jobs, a pod from start to end (as root)
	@sh deploy/deps.sh image
	@sh tests/image/run.sh

# PARTS: what to make. SIGN_KEY: a secret key of minisign. BUILDER: a URI that says who builds.
PARTS ?= source deb image chart
SIGN_KEY ?=
BUILDER ?= urn:queue-sidecar:builder:unnamed
.PHONY: release test-release
release: ## makes the files of a release in build/release, from a clean tree (SIGN_KEY=FILE signs them): docs/releasing.md
	@sh deploy/deps.sh release
	@MAKE="$(MAKE)" VERSION='$(VERSION)' PARTS='$(PARTS)' SIGN_KEY='$(SIGN_KEY)' BUILDER='$(BUILDER)' sh deploy/release/release.sh

test-release: ## makes a release in two clones of the last commit, compares the bytes, and tests what users do with the files
	@sh deploy/deps.sh release
	@MAKE="$(MAKE)" PARTS='$(PARTS)' sh tests/release/run.sh $(if $(T),'$(T)')

test-kubernetes: ## runs the manifests of deploy/ on a real Kubernetes, which it builds once from the Go proxy (as root; T='test_life.Life': only this)
	@sh deploy/deps.sh kubernetes
	@sh tests/kubernetes/run.sh $(T)

.PHONY: deb test-deb
deb: ## builds the Debian packages of the last commit into build/release, for Debian 12 and 13 (as root; ARCH=arm64 compiles for another machine)
	@sh deploy/deps.sh deb
	@nice sh deploy/deb.sh $(ARCH)

test-deb: deb ## tests the Debian packages: lintian, equal bytes, and their life under systemd in Debian 12 and 13 (as root)
	@sh deploy/deps.sh suite
	@sh tests/deb/run.sh

.PHONY: test-arm64
test-arm64: ## compiles for arm64, and runs under qemu the tests of functions, also those against a redis-server (as root; T='unit_json/*': only these)
	@sh deploy/deps.sh arm64
	@MAKE="$(MAKE)" sh tests/arm64/run.sh $(if $(T),'$(T)')

cover: ## runs the suite in a gcov build and prints the line coverage of each file
	@$(MAKE) -s -j2 suite B=build/cover CFLAGS='-O0 -g --coverage' LDFLAGS=--coverage
	@sh tests/check/cover.sh build/cover

# Each harness continues with the corpus of its last run, in build/fuzz. It is linked with the parsers alone: what the tables of the API
# name besides is not there, and never called.
FUZZERS := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/*.c))
FUZZ_SRC := $(wildcard sidecar/base/*.c sidecar/base/json/*.c)
FUZZ_API := $(wildcard sidecar/base/text/*.c) sidecar/operate/filter.c sidecar/operate/requeue/plan.c \
    $(patsubst %,sidecar/http/api/%.c,answer filters params routes tokens answers/order answers/plan questions/cursor)
build/fuzz/http: FUZZ_SRC += $(FUZZ_API)
build/fuzz/http: $(FUZZ_API) sidecar/http/api/params.h
build/fuzz/%: tests/fuzz/%.c $(FUZZ_SRC) $(wildcard sidecar/base/*.h sidecar/base/json/*.h) Makefile | $(B)/gen/version.h $(B)/gen/scripts.c
	@mkdir -p $(@D)
	clang -std=c11 -O1 -g $(WARN) $(CPPFLAGS_ALL) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -pthread -no-pie \
	    -Wl,--unresolved-symbols=ignore-in-object-files -o $@ $< $(FUZZ_SRC) $(shell pkg-config --libs nettle)

.PHONY: fuzz
fuzz: $(FUZZERS) ## fuzzes the parsers of untrusted bytes, each harness for FUZZ_SECONDS
	@python3 tests/fuzz/seeds.py build/fuzz/http.corpus
	@for fuzzer in $(FUZZERS); do \
	    mkdir -p $$fuzzer.corpus && $$fuzzer -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -print_final_stats=1 \
	        -artifact_prefix=$$fuzzer. $$fuzzer.corpus || exit 1; \
	done

.PHONY: vectors
vectors: ## regenerates tests/data with the client libraries in build/clients
	@sh tests/clients/vectors.sh

.PHONY: compdb
compdb: ## writes build/compile_commands.json, from which clangd knows how each file is compiled
	@$(MAKE) -s $(B)/gen/paths.h $(B)/gen/version.h $(GEN_OBJ)
	@$(MAKE) -nB CC="$(lastword $(CC))" $(OBJ) $(TEST_OBJ) | awk -v dir="$(CURDIR)" ' \
	    / -c -o [^ ]*\.o [^ ]*\.c$$/ { \
	        file = $$NF; gsub(/[\\"]/, "\\\\&"); \
	        printf "%s{\"directory\": \"%s\", \"file\": \"%s\", \"command\": \"%s\"}", n++ ? ",\n" : "[\n", dir, file, $$0 } \
	    END { print "\n]" }' >$(B)/compile_commands.json

.PHONY: docs check lint tidy format
docs: all ## regenerates the parts of docs/ that come from the program and its sources
	@python3 tests/check/docs.py --write
	@python3 tests/check/man.py --write

check: ## installs missing linters, builds, then checks layers, config keys, scripts, sizes, hygiene and style
	@sh deploy/deps.sh check
	@$(MAKE) -s -j2 PROGRESS=yes all
	@MAKE="$(MAKE)" sh tests/check/run.sh

lint: ## only the linters
	@sh deploy/deps.sh check
	@MAKE="$(MAKE)" sh tests/check/run.sh format shell cppcheck tidy

format: ## formats C by .clang-format
	find sidecar tests -name '*.[ch]' -exec clang-format -i {} +

# clang-tidy checks a source only after its object was rebuilt, so after a change of the source or of a header that it includes. Its
# analyzer follows TIDY_NODES states of a function: 225000 are its own default and take 20 minutes for all sources, a ninth takes 3; `make
# test-long` follows all.
TIDY_NODES ?= 25000
tidy: $(SRC:%.c=$(B)/tidy/%.ok)

$(B)/tidy/%.ok: $(B)/%.o .clang-tidy
	@mkdir -p $(@D)
	@clang-tidy --quiet $(<:$(B)/%.o=%.c) -- $(filter-out -Werror,$(CFLAGS_ALL)) \
	    -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_NODES) 2>&1
	@touch $@

# Directories of `make install`: below PREFIX, except the config. Packages set PREFIX=/usr and DESTDIR.
BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
DOCDIR ?= $(DATADIR)/doc/queue-sidecar
BASHCOMPDIR ?= $(DATADIR)/bash-completion/completions
ZSHCOMPDIR ?= $(DATADIR)/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
CONFDIR = $(SYSCONFDIR)/queue-sidecar
PLACES = BINDIR='$(BINDIR)' MANDIR='$(MANDIR)' DOCDIR='$(DOCDIR)' BASHCOMPDIR='$(BASHCOMPDIR)' ZSHCOMPDIR='$(ZSHCOMPDIR)' \
    UNITDIR='$(UNITDIR)' SYSUSERSDIR='$(SYSUSERSDIR)' CONFDIR='$(CONFDIR)' DESTDIR='$(DESTDIR)'

.PHONY: install uninstall clean help
install: all ## installs program, manual pages, completions, units, samples (DESTDIR, PREFIX, SYSCONFDIR, BINDIR, ...); an existing config is kept
	@$(PLACES) sh deploy/install.sh install $(B)/queue-sidecar $(MAN)

uninstall: ## removes the installed files; a changed config stays
	@$(PLACES) sh deploy/install.sh uninstall

clean: ## removes build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1	\2/p' Makefile | expand -t 15
