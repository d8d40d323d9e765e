# make demo   sets up what is missing, then runs the main job on real input
# make test   sets up what is missing, then runs the tests
# make help   lists the rest

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

#: What a Debian or Ubuntu needs besides Python: program:package.
SYSTEM := g++:g++ make:make perl:perl iverilog:iverilog riscv64-unknown-elf-gcc:gcc-riscv64-unknown-elf

.PHONY: help demo test install system rtl registers campaign bench bench-fpga boards gate experiment clean

help:
	@sed -n 's/^# //p' Makefile

demo: install
	$(BIN)/t3hw demo

test: install
	$(BIN)/pytest -n 2

# make install   .venv with t3hw in it, on the pinned set of packages
install: system $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "t3hw needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(MAKE) --no-print-directory system SYSTEM=nothing:python3-venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,fpga]'
	@touch $@

system:
	@missing=""; \
	for pair in $(SYSTEM); do \
	  command -v "$${pair%%:*}" >/dev/null 2>&1 || missing="$$missing $${pair##*:}"; \
	done; \
	for header in lz4.h:liblz4-dev zlib.h:zlib1g-dev; do \
	  [ -e "/usr/include/$${header%%:*}" ] || missing="$$missing $${header##*:}"; \
	done; \
	[ -z "$$missing" ] || { \
	  root=""; [ "$$(id -u)" = 0 ] || root="sudo -n"; \
	  { command -v apt-get >/dev/null && $$root apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$root apt-get install -y -qq $$missing >/dev/null; } || \
	  { echo "please install:$$missing (Debian and Ubuntu: apt-get install$$missing)" >&2; exit 1; }; }

# make rtl        writes rtl/ anew: the stock Verilog
rtl: install
	$(BIN)/python -m t3hw.generate --stock rtl

# make registers  derives all that comes from the register description anew
registers: install
	$(BIN)/python -m t3hw.registers.derive

# make campaign   hundreds of random rings, bit for bit, on both simulators (long)
campaign: install
	$(BIN)/python -m t3hw.cosim.campaign --simulator both --json docs/results/campaign.json

# make bench      measures the blocks, writes docs/results/blocks.json; reports what FPGA figures got worse
bench: install
	$(BIN)/t3hw bench blocks --json docs/results/blocks.json
	$(BIN)/t3hw bench fpga --seeds 5 --compare docs/results/fpga.json

# make bench-fpga measures LUTs and MHz of the blocks and stores them (an hour)
bench-fpga: install
	$(BIN)/t3hw bench fpga --seeds 5 --targets xilinx gowin --json docs/results/fpga.json || true
	$(BIN)/python -m t3hw.bench docs/results/fpga.md docs/results/fpga.json

# make boards     bitstreams of a ring of four and of the smallest board, into build/ (half an hour)
boards: install
	$(BIN)/t3hw fpga build ulx3s-85f -o build/ulx3s-85f
	$(BIN)/t3hw fpga build icebreaker -o build/icebreaker

# make gate       the netlists of a ring of two, for ECP5 and of plain gates, on both simulators (long)
gate: install
	$(BIN)/python -m t3hw.fpga.gate_level

# make experiment the paper's experiment, its sweeps, and the page of results (some ten minutes)
RESULTS := docs/results
SWEEPS  := granularity threshold link compute
experiment: install
	$(BIN)/t3hw bench overlap --all --over-time "T-NLG FC-2 TP 8" --json $(RESULTS)/overlap.json \
	  --figures $(RESULTS)/overlap
	for name in $(SWEEPS); do $(BIN)/t3hw bench overlap --model T-NLG --tp 8 --sweep $$name \
	  --json $(RESULTS)/sweep-$$name.json --figures $(RESULTS)/overlap || exit 1; done
	$(BIN)/t3hw bench overlap --model T-NLG --sublayer IP --tp 16 --sweep efficiency \
	  --json $(RESULTS)/sweep-efficiency.json
	$(BIN)/t3hw bench loop-back --json $(RESULTS)/loop_back.json
	$(BIN)/t3hw bench memory --json $(RESULTS)/memory.json
	for name in overlap $(SWEEPS:%=sweep-%) sweep-efficiency loop_back memory; do \
	  $(BIN)/python -m t3hw.bench $(RESULTS)/overlap.md $(RESULTS)/$$name.json || exit 1; done

# make clean      removes .venv and what builds left
clean:
	rm -rf $(VENV) build dist *.egg-info
