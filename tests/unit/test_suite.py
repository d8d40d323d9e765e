"""The tests themselves: none is hidden by another, none stands where nobody looks. And of all
Python, how wide it is."""

import ast
import collections
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.glob("**/test_*.py"))
PYTHON = sorted(path for folder in ("fpga", "t3hw", "tests")
                for path in (TESTS.parent / folder).glob("**/*.py"))


def test_file_names_are_unique():
    """Without packages two files of one name are one module, and the second is never run."""
    names = collections.Counter(path.name for path in TESTS.glob("**/*.py"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_has_tests_and_no_two_of_a_name(path):
    """A function that is defined twice is run once: the first is gone."""
    for scope in ast.walk(ast.parse(path.read_text())):
        if not isinstance(scope, (ast.Module, ast.ClassDef)):
            continue
        names = collections.Counter(
            node.name for node in scope.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)))
        assert [name for name, count in names.items() if count > 1] == []
        if isinstance(scope, ast.Module):
            assert any(name.startswith(("test_", "Test")) for name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_test_is_a_coroutine(path):
    """A coroutine that nobody awaits passes without running."""
    tree = ast.parse(path.read_text())
    assert [node.name for node in tree.body
            if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_")] == []


def test_no_test_is_switched_off():
    """Skips say in their condition what is missing; expected failures there are none."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "xfail":
                raise AssertionError(f"{path.name}:{node.lineno}: expected failure")
            if isinstance(node, ast.Attribute) and node.attr == "skip" and \
                    isinstance(node.value, ast.Attribute):
                raise AssertionError(f"{path.name}:{node.lineno}: unconditional skip")


def test_no_line_has_more_than_100_columns():
    """Of characters, not of bytes."""
    assert [f"{path}:{number}" for path in PYTHON
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if len(line) > 100] == []
