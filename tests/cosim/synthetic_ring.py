"""Trace logs of a ring that was never simulated, but could have been: for tests of the timeline."""

BIN = 32
PACE = 3
LATENCY = 60


def write_logs(directory, plan, beat_bytes, *, overlap=True):
    """Write the logs of all devices; returns the cycle in which the last is done."""
    devices = plan.devices
    lines = [[] for _ in range(devices)]
    beats = [{name: {} for name in ("producer", "remote", "local", "incoming", "memory", "dma",
                                    "tx", "rx")} for _ in range(devices)]
    arrivals = {}
    link_free, dma_free = [0] * devices, [0] * devices
    total = sum(chunk.bytes for chunk in plan.chunks) // beat_bytes * PACE
    produced = [100 + device for device in range(devices)]
    done = [0] * devices

    def spread(device, name, start, count, pace=1):
        for index in range(count):
            at = (start + index * pace) // BIN * BIN
            beats[device][name][at] = beats[device][name].get(at, 0) + 1

    for stage in range(devices):
        for device, device_plan in enumerate(plan.device_plans):
            neighbour = (device - 1) % devices
            entries = {id(entry.tile): entry for entry in device_plan.tiles}
            chunk = plan.chunks[device_plan.stages[stage].chunk]
            role = device_plan.stages[stage].role
            for tile in chunk.tiles:
                count = tile.bytes // beat_bytes
                start, ready = produced[device], produced[device] + count * PACE
                produced[device] = ready
                spread(device, "producer", start, count, PACE)
                if role == "remote":
                    spread(device, "remote", start, count, PACE)
                    spread(device, "tx", start, count, PACE)
                    spread(neighbour, "rx", start + LATENCY, count, PACE)
                    spread(neighbour, "incoming", start + LATENCY, count, PACE)
                    spread(neighbour, "memory", start + LATENCY, count, PACE)
                    arrivals[neighbour, id(tile)] = ready + LATENCY
                    continue
                spread(device, "local", start, count, PACE)
                spread(device, "memory", start, count, PACE)
                slot = entries[id(tile)].slot
                full = max(ready, arrivals[device, id(tile)])
                lines[device].append((full, f"F {full} {slot}"))
                done[device] = max(done[device], full)
                if role != "forward":
                    continue
                fire = max(full + 5, dma_free[device], 0 if overlap else total + 110)
                dma_free[device] = end = fire + count + 10
                lines[device].append((fire, f"X {fire} {slot}"))
                lines[device].append((fire, f"B {fire} {tile.wg}"))
                lines[device].append((fire, f"R {fire + 2}"))
                lines[device].append((end, f"C {end}"))
                for name in ("dma", "tx", "memory"):
                    spread(device, name, fire + 10, count)
                for name in ("rx", "incoming", "memory"):
                    spread(neighbour, name, fire + 10 + LATENCY, count)
                arrivals[neighbour, id(tile)] = end + LATENCY
                done[device] = max(done[device], end)
    for device in range(devices):
        lines[device] += [(100 + device, f"S {100 + device}"),
                          (produced[device], f"E {produced[device]}"),
                          (done[device], f"P {done[device]} 1")]
        for at in sorted({at for counts in beats[device].values() for at in counts}):
            row = " ".join(str(counts.get(at, 0)) for counts in beats[device].values())
            lines[device].append((at + BIN - 1, f"A {at} {row}"))
        in_order = sorted(lines[device], key=lambda line: line[0])
        text = "\n".join([f"T {BIN}", *(line for _, line in in_order)])
        (directory / f"trace{device}.txt").write_text(text + "\n")
    return max(done) + 1
