"""The stock node where no Python is: a plain Verilog bench, FuseSoC,
and a program on a soft core."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOC = ROOT / "fpga" / "soc"
NODE = ROOT / "rtl" / "t3_node_small.v"

#: Debian's and Ubuntu's package gcc-riscv64-unknown-elf.
COMPILER = "riscv64-unknown-elf-"
WORDS_OF_RAM = 4096


def run(*command, cwd, **options):
    """Run a program to its end; its output, also shown if the test fails."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    return done.stdout


def simulate(folder, top, *sources):
    run("iverilog", "-g2005", "-Wimplicit", "-s", top, "-o", top, *sources, cwd=folder)
    return run("vvp", "-n", top, cwd=folder)


def test_the_plan_is_what_the_planner_makes(tmp_path):
    run(sys.executable, SOC / "make_plan.py", "--output", tmp_path, cwd=ROOT)
    for name in ("plan.hex", "plan.h"):
        assert (tmp_path / name).read_text() == (SOC / name).read_text(), \
            f"fpga/soc/{name} is not what fpga/soc/make_plan.py writes: run it"


def test_plain_verilog_bench(tmp_path):
    shutil.copy(SOC / "plan.hex", tmp_path)
    output = simulate(tmp_path, "node_tb", SOC / "node_tb.v", SOC / "t3_word_bus.v", NODE)
    assert output == "node_tb: 64 sums are right\n"


def test_plain_verilog_bench_with_another_sum(tmp_path):
    # The bench itself must be able to fail.
    shutil.copy(SOC / "plan.hex", tmp_path)
    bench = (SOC / "node_tb.v").read_text()
    wrong = bench.replace("partial(2, word) +", "partial(4, word) +")
    assert wrong != bench
    (tmp_path / "node_tb.v").write_text(wrong)
    output = simulate(tmp_path, "node_tb", "node_tb.v", SOC / "t3_word_bus.v", NODE)
    assert "FAILED: a wrong sum" in output and "sums are right" not in output


def test_addresses_in_the_bench_are_those_of_the_header():
    access = runpy.run_path(str(ROOT / "t3hw" / "registers" / "map.py"))
    constants = dict(re.findall(r"\b([A-Z][A-Z_0-9]+) = 20'h([0-9A-F]+)",
                                (SOC / "node_tb.v").read_text()))
    assert len(constants) == 7
    tables = {"PLAN_TABLE": "PLAN", "REGION_TABLE": "REGION"}
    for name, value in constants.items():
        if name in tables:
            wanted = access["TABLES"][tables[name]].base
        else:
            wanted = access["REGISTERS"][{"PLAN_STATE": "PLAN_STATUS_STATE"}.get(name, name)].offset
        assert int(value, 16) == wanted, name


def test_fusesoc_project(tmp_path):
    fusesoc = Path(sys.executable).with_name("fusesoc")
    output = run(fusesoc, "--cores-root", ROOT / "rtl", "--cores-root", SOC, "run", "--build-root",
                 tmp_path / "build", "--target", "sim", "t3hw:t3:soc_example", cwd=tmp_path)
    assert "node_tb: 64 sums are right" in output


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The bare-metal program as words for $readmemh."""
    folder = tmp_path_factory.mktemp("program")
    assert shutil.which(COMPILER + "gcc"), (
        f"{COMPILER}gcc is not installed; please install it "
        "(Debian and Ubuntu: apt-get install gcc-riscv64-unknown-elf)")
    run(COMPILER + "gcc", "-march=rv32i", "-mabi=ilp32", "-nostdlib", "-ffreestanding", "-Os",
        "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'rtl'}", f"-I{SOC / 'include'}", "-T",
        SOC / "soc.ld", "-o", "program.elf", SOC / "start.S", SOC / "main.c", SOC / "t3.c",
        cwd=folder)
    run(COMPILER + "objcopy", "-O", "binary", "program.elf", "program.bin", cwd=folder)
    image = (folder / "program.bin").read_bytes().ljust(4 * WORDS_OF_RAM, b"\0")
    assert len(image) == 4 * WORDS_OF_RAM
    return "".join(f"{int.from_bytes(image[at:at + 4], 'little'):08x}\n"
                   for at in range(0, len(image), 4))


def test_bare_metal_driver_on_a_soft_core(tmp_path, program):
    import pythondata_cpu_picorv32
    cpu = Path(pythondata_cpu_picorv32.data_location) / "picorv32.v"
    (tmp_path / "program.hex").write_text(program)
    output = simulate(tmp_path, "soc_tb", SOC / "soc_tb.v", SOC / "soc.v", SOC / "t3_word_bus.v",
                      NODE, cpu)
    assert output.startswith("reduce-scatter: all sums are right\nexit code 0 after ")
