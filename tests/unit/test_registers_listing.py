"""The listing names everything in the map, with its address and its bits."""

import re

from t3hw.cli import main
from t3hw.registers import ENUMS, MAP_HASH, REGISTERS, TABLES
from t3hw.registers.listing import listing


def section(text, start):
    """Lines from the one that starts like this to the next empty one."""
    return re.search(rf"^{re.escape(start)}.*?(?=\n\n|\Z)", text, re.M | re.S).group().splitlines()


def test_some_lines_by_hand():
    text = listing()
    assert f"Register map {MAP_HASH:08x}" in text.splitlines()[0]
    assert section(text, "0x00000") == [
        "0x00000  ro   0x54334857  PRODUCT_ID", "     [31:0]  id"]
    assert section(text, "0x00040") == [
        "0x00040  rw   0x00000000  CONTROL", "      [1:0]  policy: policy", "        [8]  hold"]
    assert section(text, "0x00070")[0] == "0x00070  w1c  0x00000000  ERROR_STATUS"
    assert section(text, "0x00008")[0] == "0x00008  ro   -           CONFIG_HASH"
    assert section(text, "0x00100")[0].endswith("PLAN_STATUS_STATE[8], to 0x00170 in steps of 0x10")
    region = section(text, "0x41000")
    assert region[0] == ("0x41000  REGION, at most 32 entries, to 0x417c0 in steps of 0x40, "
                         "10 words each")
    assert "    word 0       [2:1]  action: region_action" in region
    assert "    words 1, 2  [63:0]  base" in region
    assert section(text, "policy") == [
        "policy", "     0  ROUND_ROBIN", "     1  COMPUTE_FIRST", "     2  MCA"]
    assert max(map(len, text.splitlines())) <= 100


def test_all_of_the_map_is_there():
    text = listing()
    for name, register in REGISTERS.items():
        first, *fields = section(text, f"0x{register.offset:05x}")
        assert re.search(rf"\b{name}\b", first)
        assert [line.split()[1].rstrip(":,") for line in fields] == \
            sorted(register.fields, key=lambda key: register.fields[key].low)
    for name, table in TABLES.items():
        first, *fields = section(text, f"0x{table.base:05x}")
        assert name in first and len(fields) == len(table.fields)
    for name, members in ENUMS.items():
        assert section(text, name)[1:] == [
            f"    {value:2}  {member}" for member, value in members.items()]


def test_the_command(capsys):
    assert main(["registers"]) == 0
    assert capsys.readouterr().out == listing() + "\n"
