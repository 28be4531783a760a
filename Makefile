# SPDX-License-Identifier: Apache-2.0
# The front door. Meson and ninja build; this file only names the things one does.

BUILD ?= build
TIME ?= 60
PREFIX ?= /usr/local
MESON_FLAGS ?=

all: $(BUILD)/build.ninja ## build build/bawn and build/bawnd
	@ninja -C $(BUILD) --quiet

$(BUILD)/build.ninja:
	@meson setup $(BUILD) --prefix=$(PREFIX) $(MESON_FLAGS) >/dev/null

up: ## install what is missing, build, run a first command, start a server and use it
	@tools/up

down: ## end that server and its sandboxes
	@tools/down

test: ## install what tests need, run everything CI runs
	@tools/test

lint: ## clang-format, clang-tidy, cppcheck, layers, banned functions, shellcheck
	@tools/install-deps build lint
	@tools/lint

check: all ## the quick tests: unit tests and corpus replay, any user
	@tools/test build-gcc unit-user replay

check-root: all ## the tests that need root, without the slow ones
	@tools/test build-gcc unit-root integration-root escape

check-asan: ## unit and integration tests under ASan and UBSan
	@tools/test 'build-asan' '*-asan'

fuzz: ## run every fuzz target for TIME seconds each (default 60)
	@tools/fuzz $(TIME)

bench: all ## compare start-up with bwrap, crun, runc; the road out with its peers
	@tools/install-deps build bench
	@BUILD=$(abspath $(BUILD)) bench/run --vm --server --egress --write docs/benchmarks.md

install: all ## install below PREFIX (default /usr/local); DESTDIR is honoured
	@meson install -C $(BUILD) --no-rebuild --strip

clean: ## remove the build directories
	@rm -rf build build-clang build-asan build-fuzz

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

.PHONY: all up down test lint check check-root check-asan fuzz bench install clean help
