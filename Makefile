# The two commands of the README are `make demo` and `make test`; `make help` lists the rest.
# Everything but the program's own output goes to stderr, so that `make demo > story.txt` holds the story alone.

PROMPT ?= Once upon a time
# Handed over through the environment and unexpanded: quotes and dollars in PROMPT reach the program as typed.
demo: export DEMO_PROMPT := $(value PROMPT)

MAKEFLAGS += --no-print-directory
launcher := $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
configure = cmake --preset release $(launcher)
quietly = >/dev/null  # CMake lists the preset's variables there; warnings and errors go to stderr
sources = git ls-files '*.cc' '*.h' '*.cu' '*.cuh'
prefix ?= /usr/local

.PHONY: demo test build check format tidy install clean help

demo: build  ## build the program and let the bundled model tell a story: make demo PROMPT="The fox said"
	@[ -t 1 ] && [ -t 2 ] || printf %s "$$DEMO_PROMPT"  # on a terminal the program shows it
	@build/release/src/cli/carat run --prompt="$$DEMO_PROMPT"

build:  ## build the program only
	@tools/install_dependencies.sh program
	@$(configure) -DCARAT_TESTS=OFF --log-level=WARNING $(quietly)
	@cmake --build --preset release --target carat >&2

test:  ## build everything and run the tests
	@tools/install_dependencies.sh test
	@$(configure) -DCARAT_TESTS=ON --log-level=WARNING $(quietly)
	@cmake --build --preset release >&2
	@ctest --preset release --no-tests=error -j "$$(nproc)"

check:  ## all that CI runs: tests, style and layering checks, sanitizers, fuzzing
	@.ci/run

format:  ## format the sources and renew the line numbers in the documents' links
	@$(sources) | xargs clang-format-19 -i
	@tools/check_links.py --fix

tidy: test  ## clang-tidy over the sources
	@git ls-files 'src/*.cc' | xargs -P "$$(nproc)" -n 1 clang-tidy-19 --quiet -p build/release

install: build  ## install under prefix=/usr/local
	@cmake --build --preset release --target carat_library >&2
	@cmake --install build/release --prefix "$(prefix)" --strip >&2
	@case ":$$PATH:" in *":$(prefix)/bin:"*) ;; *) \
	  echo 'add $(prefix)/bin to PATH: export PATH="$(prefix)/bin:$$PATH"' >&2 ;; esac

clean:  ## remove all build folders
	@rm -rf build

help:
	@sed -n 's/^\([a-z]*\):.*  ## /\1\t/p' Makefile
