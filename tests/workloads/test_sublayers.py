"""Shapes of sublayers are those of the layers; what cannot be is refused by name and value."""

import math

import pytest

from t3hw.workloads import InputError
from t3hw.workloads.sublayers import (SUBLAYERS, Model, Sublayer, find_model, load_models,
                                      sublayers)

#: hidden, layers, sequence, batch, TP degrees; typed again from the table of the paper's models.
TABLE = {
    "Mega-GPT-2": (3072, 74, 1024, 16, (8, 16)),
    "T-NLG": (4256, 78, 1024, 8, (8, 16)),
    "GPT-3": (12288, 96, 1024, 2, (32,)),
    "PALM": (18432, 118, 1024, 2, (32,)),
    "MT-NLG": (20480, 105, 1024, 2, (32,)),
}


def model(**fields):
    return Model(**{"name": "mine", "hidden": 768, "layers": 12, "sequence": 128, "batch": 4,
                    "heads": 12, "tp": (2, 4)} | fields)


def test_models_are_those_of_the_paper():
    models = load_models()
    assert {name: (entry.hidden, entry.layers, entry.sequence, entry.batch, entry.tp)
            for name, entry in models.items()} == TABLE
    assert {entry.group for entry in models.values()} == {
        "Mega-GPT-2 and T-NLG", "GPT-3, PALM, MT-NLG"}


def test_a_report_covers_28_sublayers_in_order():
    chosen = sublayers()
    assert len(chosen) == len(set(map(str, chosen))) == 28
    assert [str(entry) for entry in chosen[:5]] == [
        "Mega-GPT-2 OP TP 8", "Mega-GPT-2 FC-2 TP 8", "Mega-GPT-2 FC-1 TP 8", "Mega-GPT-2 IP TP 8",
        "Mega-GPT-2 OP TP 16"]
    assert sum(entry.model.group == "Mega-GPT-2 and T-NLG" for entry in chosen) == 16
    assert len(sublayers(model="gpt-3")) == 4
    assert [str(entry) for entry in sublayers(model="T-NLG", sublayer="op", tp=16)] == [
        "T-NLG OP TP 16"]


@pytest.mark.parametrize("name", TABLE)
def test_shapes(name):
    """All devices together multiply with the whole weight, of which the layer has a known size."""
    hidden, _, sequence, batch, degrees = TABLE[name]
    weights = {"OP": (hidden, hidden), "FC-2": (4 * hidden, hidden), "FC-1": (4 * hidden, hidden),
               "IP": (3 * hidden, hidden)}
    for tp in degrees:
        for sublayer, (inputs, outputs) in weights.items():
            made = find_model(name).sublayer(sublayer, tp)
            assert (made.rows, made.columns) == (sequence * batch, outputs)
            assert tp * made.k == inputs
            assert tp * made.flops == 2 * sequence * batch * math.prod((inputs, outputs))
            assert made.output_bytes() == sequence * batch * hidden * 2
            assert made.direction == ("forward" if sublayer in ("OP", "FC-2") else "backward")


def test_same_shape_is_known_to_be_the_same():
    chosen = {str(entry): entry.shape for entry in sublayers()}
    assert chosen["T-NLG FC-2 TP 8"] == chosen["T-NLG FC-1 TP 8"] == (8192, 4256, 2128, 8)
    assert len(set(chosen.values())) == 21


def test_what_was_assumed_is_said():
    for entry in load_models().values():
        assert {"sequence", "batch"} <= entry.assumed.keys()
    assert "28" in find_model("T-NLG").assumed["heads"]
    assert "48" in find_model("PALM").assumed["heads"]


@pytest.mark.parametrize("name", ["GPT-4", "", None, 3])
def test_unknown_model_shows_the_list(name):
    with pytest.raises(InputError) as refused:
        find_model(name)
    assert str(refused.value) == (
        f"no model {name!r}; models are Mega-GPT-2, T-NLG, GPT-3, PALM, MT-NLG")


@pytest.mark.parametrize("name", ["FC-3", "", None, ["OP"]])
def test_unknown_sublayer_shows_the_list(name):
    with pytest.raises(InputError) as refused:
        Sublayer(model=model(), name=name, tp=2)
    assert str(refused.value) == f"no sublayer {name!r}; sublayers are OP, FC-2, FC-1, IP"
    assert list(SUBLAYERS) == ["OP", "FC-2", "FC-1", "IP"]


def test_tp_that_does_not_divide_the_heads_is_refused():
    with pytest.raises(InputError) as refused:
        sublayers(model="Mega-GPT-2", tp=12)
    assert str(refused.value) == "Mega-GPT-2: tp must divide the 32 heads (2, 4, 8, 16, 32), not 12"
    with pytest.raises(InputError, match=r"mine: tp must divide the 12 heads \(2, 3, .*\), not 8"):
        model(tp=(2, 8))
    for tp in (1, 0, -2, 2.0, "8", True, None):
        with pytest.raises(InputError, match=f"tp must be an integer of at least 2, not {tp!r}"):
            model().sublayer("OP", tp)


@pytest.mark.parametrize("field", ["hidden", "layers", "sequence", "batch", "heads"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "12", None, True, 1 << 40])
def test_nonsense_sizes_are_refused(field, value):
    with pytest.raises(InputError, match=f"mine: {field} must be an integer from 1 to .*, "
                                         f"not {value!r}"):
        model(**{field: value})


@pytest.mark.parametrize("fields, message", [
    ({"heads": 10}, "mine: heads must divide the hidden size 768, not 10"),
    ({"tp": ()}, r"mine: tp must be one or more TP degrees, not \(\)"),
    ({"tp": 8}, "mine: tp must be one or more TP degrees, not 8"),
    ({"name": ""}, "name of a model must be text, not ''"),
    ({"assumed": {"colour": "red"}}, "mine: assumed names 'colour', which is no field"),
    ({"assumed": 3}, "mine: assumed must be a table, not 3"),
])
def test_contradictions_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        model(**fields)


@pytest.mark.parametrize("text, message", [
    ("[a]\nhidden = 1\n", "a: layers is missing"),
    ("[a]\nwidth = 1\n", "a: no field 'width'; fields are hidden, layers"),
    ("a = 3\n", "a must be a table, not 3"),
    ("[a\n", "models.toml: "),
])
def test_bad_files_are_refused(tmp_path, text, message):
    file = tmp_path / "models.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        load_models(file)
    with pytest.raises(InputError, match="nothing.toml: No such file"):
        load_models(tmp_path / "nothing.toml")
