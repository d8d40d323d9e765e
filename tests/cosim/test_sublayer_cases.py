"""Cases of the experiment without a simulator: what runs, what is taken over, what is kept."""

import dataclasses
import json
import threading

import pytest
from small_sublayer import MACHINE

from t3hw.cli import BAD_INPUT, OK, WRONG, main
from t3hw.cosim import sublayer_bench, sublayer_cases
from t3hw.cosim.sublayer_bench import bench_overlap, sweep_overlap
from t3hw.cosim.sublayer_cases import Case, CaseOutcome, run_cases
from t3hw.cosim.simulators import SimulatorError
from t3hw.cosim.sublayer_run import _STAGES, _STEPS, _UNITS, Phase, check_fits, slice_config
from t3hw.hdl.traffic_node import TrafficNode
from t3hw.perf.machine import Machine
from t3hw.perf.records import BEATS, CYCLES, OVERLAPPED, VARIANTS, CaseRecord
from t3hw.workloads.errors import InputError
from t3hw.workloads.sublayers import Model, sublayers

MODEL = Model(name="tall", hidden=128, layers=1, sequence=128, batch=1, heads=8, tp=(2, 4))
#: Of the same shape, by another name.
TWIN = Model(name="twin", hidden=128, layers=1, sequence=64, batch=2, heads=16, tp=(2, 4),
             group="twins")


def case(name="FC-2", tp=4, *, model=MODEL, machine=MACHINE, **options):
    return Case(sublayer=model.sublayer(name, tp), machine=machine, **options)


def record(case):
    """A record as a simulation makes it; its numbers say whose it is."""
    return CaseRecord(
        model=case.sublayer.model.name, sublayer=case.sublayer.name,
        group=case.sublayer.model.group, tp=case.sublayer.tp, output_beats=1024,
        cycles={name: 100 * case.sublayer.tp + case.granularity for name in CYCLES},
        gemm_cycles=dict.fromkeys(OVERLAPPED, 9),
        beats={variant: dict.fromkeys(BEATS, 3) for variant in VARIANTS})


class Stub:
    """Takes the place of the simulation, in a cache that is empty."""

    def __init__(self):
        self.ran, self.built, self.fails = [], [], set()
        self.fingerprint = "hardware"
        self._lock = threading.Lock()

    def run_case(self, case, simulation):
        with self._lock:
            self.ran.append(str(case.sublayer))
        assert simulation is case.machine or simulation == case.machine
        if str(case.sublayer) in self.fails:
            raise SimulatorError(f"{case.sublayer} is wrong")
        return CaseOutcome(record=record(case), simulated_cycles=5000, seconds=2.0,
                           peak_bytes=1 << 20)

    def loop_back(self, machine):
        self.built.append(machine)
        return machine


@pytest.fixture
def stub(monkeypatch, tmp_path):
    stub = Stub()
    monkeypatch.setattr(sublayer_cases, "run_case", stub.run_case)
    monkeypatch.setattr(sublayer_cases, "loop_back", stub.loop_back)
    monkeypatch.setattr(sublayer_cases, "_fingerprint", lambda _machine: stub.fingerprint)
    monkeypatch.setattr(sublayer_cases, "cache_directory", lambda: tmp_path)
    return stub


def test_cases_of_one_shape_run_once_and_each_has_its_name(stub):
    seen = []
    # FC-2 and FC-1 have one shape; so have the two models' sublayers.
    cases = [case("FC-2"), case("OP"), case("FC-1"), case("FC-2", model=TWIN)]
    outcomes = run_cases(cases, jobs=1, on_done=lambda *done: seen.append(done))
    assert sorted(stub.ran) == ["tall FC-2 TP 4", "tall OP TP 4"]
    assert [str(outcome.record) for outcome in outcomes] == [
        "tall FC-2 TP 4", "tall OP TP 4", "tall FC-1 TP 4", "twin FC-2 TP 4"]
    assert outcomes[3].record.group == "twins"
    assert outcomes[0].record.cycles == outcomes[3].record.cycles
    assert {str(done.sublayer): ran for done, _, ran in seen} == {
        str(one.sublayer): True for one in cases}
    assert len(stub.built) == 1


def test_what_was_measured_is_taken_over_unless_fresh_is_asked_for(stub):
    first = run_cases([case(), case("OP")])
    assert len(stub.ran) == 2
    seen = []
    again = run_cases([case("OP"), case("FC-1")], on_done=lambda *done: seen.append(done[2]))
    assert len(stub.ran) == 2 and seen == [False, False]
    assert [outcome.record.cycles for outcome in again] == [
        first[1].record.cycles, first[0].record.cycles]
    assert again[0] == first[1]
    run_cases([case("OP")], fresh=True)
    assert stub.ran[2:] == ["tall OP TP 4"]
    # Software or hardware that is another has measured nothing yet.
    stub.fingerprint = "other hardware"
    run_cases([case("OP")])
    assert len(stub.ran) == 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_is_broken_off_keeps_what_is_done(stub, jobs, tmp_path):
    cases = [case("FC-2"), case("OP"), case("IP"), case("OP", tp=2)]
    stub.fails = {"tall IP TP 4"}
    with pytest.raises(SimulatorError, match="tall IP TP 4 is wrong"):
        run_cases(cases, jobs=jobs)
    done = set(stub.ran) - stub.fails
    assert {"tall FC-2 TP 4", "tall OP TP 4"} <= done
    assert not list(tmp_path.glob("**/*.part"))
    stub.fails, stub.ran = set(), []
    outcomes = run_cases(cases, jobs=jobs)
    assert set(stub.ran) == {str(one.sublayer) for one in cases} - done
    assert [str(outcome.record) for outcome in outcomes] == [str(one.sublayer) for one in cases]


def test_half_a_file_is_never_taken_over(stub, tmp_path):
    """A run that ends while it writes leaves a file of another name."""
    run_cases([case()])
    path, = tmp_path.glob("**/*.json")
    path.rename(path.with_suffix(".part"))
    run_cases([case()])
    assert len(stub.ran) == 2


def test_the_key_has_all_that_decides_the_outcome():
    known = case()
    others = [case(tp=2), case("OP"), case(granularity=2), case(threshold=0), case(threshold=4),
              case(check=True), *(
                  case(machine=MACHINE.replace(**change)) for change in (
                      {"link_bytes_per_second": 2e9}, {"units": 7}, {"starvation_limit": 5},
                      {"occupancy_thresholds": (1, 2, 3, 4)},
                      {"memory_timing": MACHINE.memory_timing.replace(t_rcd="16 ns")}))]
    keys = [json.dumps(one.key, sort_keys=True) for one in (known, *others)]
    assert len(set(keys)) == len(keys)
    for same in (case("FC-1"), case(model=TWIN), case(machine=MACHINE.replace(name="another")),
                 case(machine=MACHINE.replace(assumed={"units": "few"}))):
        assert json.dumps(same.key, sort_keys=True) == keys[0]


@pytest.mark.parametrize("options, message", [
    ({"threshold": 17}, r"from 0 \(none\) to 16, .* not 17"),
    ({"threshold": -1}, r"from 0 \(none\) to 16, .* not -1"),
    ({"granularity": 0}, "at least 1 tile, not 0"),
    ({"granularity": 1.5}, "at least 1 tile, not 1.5"),
    ({"granularity": None}, "at least 1 tile, not None"),
    ({"machine": MACHINE.replace(occupancy_thresholds=(5, 10, 30, 0))}, "to 16, .* not 30"),
    ({"machine": MACHINE.replace(units=129)},
     "tall FC-2 TP 4 on machine small: units must be at most 128, not 129"),
    ({"machine": MACHINE.replace(read_streams=32)}, "streams of loads .* at most 16, not 32"),
    ({"machine": MACHINE.replace(read_burst_bytes=96)}, "beats of a load .* at most 64, not 3"),
    ({"machine": MACHINE.replace(tile_rows=48)}, "beats of a wavefront's tile .* not 12"),
    ({"machine": MACHINE.replace(tile_rows=128)}, "beats of a workgroup's tile .* not 128"),
    ({"machine": MACHINE.replace(link_latency_seconds=1e-5)}, "link's latency must be .* not 5000"),
    ({"machine": MACHINE.replace(link_bytes_per_second=2e5)}, "a beat on the link must be at most"),
    ({"machine": MACHINE.replace(flops_per_clock=1, gemm_efficiency=0.05)},
     "cycles of a step must"),
    ({"model": dataclasses.replace(MODEL, sequence=64 * 1024)}, "workgroups|stages|tiles|bytes"),
    ({"model": dataclasses.replace(MODEL, hidden=144, sequence=80)}, "divisible by the TP degree"),
])
def test_what_cannot_run_is_refused_with_its_value(options, message):
    with pytest.raises(InputError, match=message):
        case(**options)


def test_limits_are_those_of_the_node():
    node = TrafficNode(config=slice_config(MACHINE))
    capabilities = node._registers._capabilities
    assert (capabilities["CAP_GEMM"], capabilities["CAP_COLLECTIVE"]) == (
        _UNITS | _STAGES << 16, _STEPS)


def test_all_cases_of_the_report_fit_the_node():
    machine = Machine.preset()
    config = slice_config(machine)
    for sublayer in sublayers():
        run = Case(sublayer=sublayer, machine=machine).run
        check_fits(run.t3, config)
        assert (run.baseline.mode, run.t3.mode) == ("baseline", "t3")
        assert run.granularity == 1 and run.threshold is None and not run.check


def test_what_a_case_says_reaches_the_run():
    run = case(granularity=7, threshold=3, check=True).run
    assert (run.granularity, run.threshold, run.check, run.align) == (7, 3, True, 1)


def test_an_outcome_survives_as_json(stub):
    outcome, = run_cases([case()])
    assert CaseOutcome.from_dict(json.loads(json.dumps(outcome.as_dict()))) == outcome


TRACE = """\
T 100
A 100 1 0 5 0 9 0 0 0
A 200 9 9 10 20 50 5 1 1
O 200 700
F 240 3
A 300 0 0 1 2 40 60 0 0
O 300 50
A 400 0 0 0 0 8 0 0 0
O 500 99
A 500 8 8 8 8 88 8 8 8
"""


def test_a_phase_over_time_is_cut_from_the_trace(tmp_path):
    """From cycle 210 to 420: the bins that it touches.
    Reads are what is left of the memory's beats."""
    (tmp_path / "trace0.txt").write_text(TRACE)
    phase = Phase(name="t3", start=210, end=420, cycles=[210], engine=[{"cycles": 190}],
                  counters=[{}], policy=[None])
    samples = sublayer_cases._samples(tmp_path / "trace0.txt", phase)
    assert samples.bin_cycles == 100
    assert samples.gemm_writes == (10, 1, 0)
    assert samples.incoming_updates == (20, 2, 0)
    assert samples.dma_reads == (5, 60, 0)
    # Never less than nothing, though a beat of the DMA engine may count a bin late.
    assert samples.gemm_reads == (15, 0, 8)
    assert samples.occupancy == (7, 0.5, 0)
    # From the first bin's beginning on.
    assert samples.gemm_end == 200


def test_a_report_refuses_a_case_that_it_does_not_run(stub):
    with pytest.raises(InputError, match="no case 'x' is run; cases are tall FC-2 TP 4$"):
        bench_overlap([MODEL.sublayer("FC-2", 4)], MACHINE, sampled="x")
    assert not stub.ran and not stub.built


def test_a_sweep_runs_each_value_and_says_where_it_is(stub, monkeypatch):
    monkeypatch.setattr(sublayer_bench, "read_toml", lambda _path: {
        "granularity": {"values": [1, 4]}, "threshold": {"values": [5, 0]},
        "link": {"values": [1, 3]}, "compute": {"values": [64]}})
    chosen = [MODEL.sublayer("FC-2", 4), MODEL.sublayer("OP", 2)]
    points = sweep_overlap("granularity", chosen, MACHINE, jobs=1)
    assert [point.value for point in points] == [1, 4]
    assert len(stub.ran) == 4
    assert [point.value for point in sweep_overlap("threshold", chosen, MACHINE)] == [5, None]
    assert len(stub.ran) == 8
    # A value that is as the machine has it has been measured: the link's 3 GB/s.
    assert [point.value for point in sweep_overlap("link", chosen, MACHINE)] == [1, 3]
    assert len(stub.ran) == 10
    flops = 64 * MACHINE.units * MACHINE.clock_hz * MACHINE.gemm_efficiency / 1e12
    assert [point.value for point in sweep_overlap("compute", chosen, MACHINE)] == [flops]
    with pytest.raises(InputError, match="sweeps are granularity, threshold, link, compute"):
        sweep_overlap("granularities", chosen, MACHINE)


def test_the_command_line_shows_and_writes_what_was_measured(stub, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["bench", "overlap", "--model", "t-nlg", "--tp", "8", "--granularity", "3",
                 "--threshold", "0", "--jobs", "1", "--json", str(tmp_path / "overlap.json")]
    # The stub's traffic is not what the formulas have.
    assert main(arguments) == WRONG
    captured = capsys.readouterr()
    assert "TRAFFIC THAT IS NOT WHAT THE FORMULAS HAVE" in captured.out
    assert sorted(stub.ran) == ["T-NLG FC-2 TP 8", "T-NLG IP TP 8", "T-NLG OP TP 8"]
    for name in ("OP", "FC-2", "FC-1", "IP"):
        assert captured.out.count(f"T-NLG {name} TP 8") >= 1
        assert f"T-NLG {name} TP 8: 5,000 cycles in 2 s" in captured.err
    content = json.loads((tmp_path / "overlap.json").read_text())
    assert (content["granularity"], content["threshold"], content["checked"]) == (3, 0, False)
    assert [CaseRecord.from_dict(record).sublayer for record in content["records"]] == [
        "OP", "FC-2", "FC-1", "IP"]
    assert content["simulation"]["jobs"] == 1 and content["simulation"]["seconds"] > 0
    assert main(arguments) == WRONG
    captured = capsys.readouterr()
    assert len(stub.ran) == 3
    assert captured.err.count("as measured before") == 4
    # What was taken over says nothing of how long all takes.
    content = json.loads((tmp_path / "overlap.json").read_text())
    assert content["simulation"]["seconds"] is None
    sweep = ["--sweep", "granularity", "--figures", str(out)]
    assert main([*arguments, *sweep]) == BAD_INPUT
    assert "which can't be given, too" in capsys.readouterr().err
    arguments.remove("--granularity")
    arguments.remove("3")
    assert main([*arguments, *sweep]) == OK
    captured = capsys.readouterr()
    content = json.loads((tmp_path / "overlap.json").read_text())
    assert content["sweep"] == "granularity" and len(content["cases"]) == 4
    assert [point["value"] for point in content["points"]] == [1, 4, 16, 64, 256]
    assert captured.out.count("\n") >= 6
    assert [path.name for path in out.iterdir()] == ["sweep-granularity.png"]


def test_the_command_line_says_which_case_failed(stub, capsys, tmp_path):
    stub.fails = {"T-NLG OP TP 8"}
    assert main(["bench", "overlap", "--model", "T-NLG", "--sublayer", "op", "--tp", "8", "--json",
                 str(tmp_path / "x.json")]) == BAD_INPUT
    assert capsys.readouterr().err.splitlines()[-1] == "t3hw: T-NLG OP TP 8 is wrong"
    assert not (tmp_path / "x.json").exists()
