"""The programmer's guide does what it says:
its Python runs, its C compiles, its lists are complete."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from t3hw.registers import ENUMS, TABLES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "programmer.md"


def blocks(language):
    """Code of the page in a language: each as its first line's number and its text."""
    text = PAGE.read_text()
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, found.start(1)), found.group(1)


def test_python_runs_in_order():
    names = {}
    codes = [compile("\n" * line + code, PAGE, "exec") for line, code in blocks("python")]
    assert len(codes) >= 8
    for code in codes:
        exec(code, names)


def test_c_compiles(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C compiler")
    sources = [code for _, code in blocks("c")]
    assert sources
    for number, source in enumerate(sources):
        path = tmp_path / f"example{number}.c"
        path.write_text(source)
        done = subprocess.run(
            [compiler, "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
             f"-I{ROOT / 'rtl'}", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_every_cause_and_table_is_explained():
    text = PAGE.read_text()
    for cause in ENUMS["error_cause"]:
        assert re.search(rf"^\| {cause} \|", text, re.M), cause
    for name, table in TABLES.items():
        assert f"| {name} | {table.base:#x}, {table.stride} |" in text


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("**/*.md")),
                         ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    """Files that the docs point to are there, and so are the tests that they name."""
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert (ROOT / path).is_file(), path
        if name:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"
