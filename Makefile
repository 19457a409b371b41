# queue-sidecar. `make help` lists what there is.
#
#   SANITIZER=address|undefined|thread  builds into build/<sanitizer>/ (address,undefined together works too)
#   CC=clang                            the other compiler
.DEFAULT_GOAL := all
SHELL := /bin/sh
CC ?= gcc
comma := ,
SANITIZER ?=
B := build$(if $(SANITIZER),/$(subst $(comma),-,$(SANITIZER)))
VERSION := 0.1.0

PKGS := hiredis libconfig
PKG_LIBS = $(shell pkg-config --libs $(PKGS) 2>/dev/null)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
SAN := $(if $(SANITIZER),-fsanitize=$(SANITIZER) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
CFLAGS ?= -O2 -g
CPPFLAGS_ALL := -D_GNU_SOURCE -DQS_VERSION='"$(VERSION)"' -Isidecar -I$(B)/gen
CFLAGS_ALL = -std=c11 $(WARN) $(CFLAGS) $(SAN) -fstack-protector-strong -pthread $(CPPFLAGS_ALL)
LDFLAGS_ALL = $(SAN) -pthread -Wl,-z,relro,-z,now $(LDFLAGS)
LIBS_ALL = $(PKG_LIBS) -lm

SRC := $(sort $(shell find sidecar -name '*.c'))
LUA := $(sort $(wildcard sidecar/queue/lua/*.lua))
OBJ := $(SRC:%.c=$(B)/%.o)
LIB_OBJ := $(filter-out $(B)/sidecar/main.o,$(OBJ)) $(B)/gen/lua.o
TEST_SRC := $(sort $(shell find tests/unit tests/redis tests/daemon tests/support -name '*.c' ! -name 'shim_*.c'))
TEST_OBJ := $(TEST_SRC:%.c=$(B)/%.o)
SHIM_SRC := $(wildcard tests/support/shim_*.c)
SHIMS := $(SHIM_SRC:tests/support/%.c=build/tests/%.so)

.PHONY: all
all: $(B)/queue-sidecar

$(B)/queue-sidecar: $(OBJ) $(B)/gen/lua.o
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL)

$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# Scripts are files of their own; the build embeds each as a C string, with its length and a terminating NUL.
$(B)/gen/lua.c: $(LUA) sidecar/queue/lua/embed.sh
	@mkdir -p $(@D)
	sh sidecar/queue/lua/embed.sh $(LUA) >$@.tmp && mv $@.tmp $@

$(B)/gen/lua.o: $(B)/gen/lua.c
	$(CC) $(CFLAGS_ALL) -Wno-overlength-strings -c -o $@ $<

$(TEST_OBJ): CFLAGS_ALL += -Itests/support -Wno-missing-prototypes

# One Criterion binary holds every test, so that one summary ends the output.
$(B)/tests/suite: $(TEST_OBJ) $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL) -lcriterion

# Preload shims for the redis-server of a test; never linked into the product, never sanitized.
build/tests/shim_%.so: tests/support/shim_%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -fPIC -shared -o $@ $< -ldl

-include $(OBJ:.o=.d) $(TEST_OBJ:.o=.d)

.PHONY: clean
clean:
	rm -rf build
