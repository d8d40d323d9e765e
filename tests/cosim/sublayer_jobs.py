"""What runs inside the simulator for the tests of a sublayer's run: with something wrong in it."""

from t3hw.cosim import sublayer_run
from t3hw.cosim.sublayer_run import run_sublayer
from t3hw.reference import add
from t3hw.runtime.device import Device


def with_wrong_seed(session, run):
    """The reference takes the data to be another."""
    right = sublayer_run.gemm_words
    sublayer_run.gemm_words = lambda first, count, seed, *masks: right(
        first, count, seed + 1, *masks)
    return run_sublayer(session, run)


def with_wrong_order(session, run):
    """The reference adds the last partial sum first."""
    def backwards(runner, device):
        total = None
        for position in reversed(range(run.t3.devices)):
            own = runner._partials(device, position)
            total = own if total is None else add(total, own, run.dtype)
        return total

    sublayer_run._Runner._reduced = backwards
    return run_sublayer(session, run)


def with_one_count_too_many(session, run, counter):
    """A counter has seen an access more than there was."""
    right = Device.counters
    Device.counters = lambda node: (counts := right(node)) | {counter: counts[counter] + 1}
    return run_sublayer(session, run)


def with_a_closed_region(session, run):
    """The node takes no updates from its neighbour."""
    plan = sublayer_run.relative_reduce_scatter

    def closed(**options):
        made = plan(**options)
        regions = tuple(sublayer_run.dataclasses.replace(region, accept_update=False)
                        for region in made.regions)
        return sublayer_run.dataclasses.replace(made, regions=regions)

    sublayer_run.relative_reduce_scatter = closed
    return run_sublayer(session, run)
