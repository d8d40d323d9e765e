"""Plans of the functional device: armed, counted, fired, done, cleared."""

import collections

from t3hw.registers import NO_COMMAND

__all__ = ["Plans"]


class _Plan:
    """One plan. ``full``: slots that are full; ``bytes``: of those that are partly counted;
    ``waiting``: full tiles by command; ``last_full``: epoch in which a slot was last full."""

    def __init__(self):
        self.armed = self.done = self.timed_out = self.clearing = False
        self.epoch = 0
        self.last_full = {}
        self.restart()

    def restart(self):
        self.age = 0
        self.full = set()
        self.bytes = {}
        self.waiting = collections.Counter()
        self.commands_done = 0

    @property
    def next_epoch(self):
        """0 is kept for never, and parities alternate."""
        return 2 if self.epoch == 15 else self.epoch + 1


class Plans:
    """All plans of a node. ``registers`` holds the tables, ``status`` takes reports."""

    def __init__(self, count, registers, status):
        self._registers = registers
        self._status = status
        self._plans = [_Plan() for _ in range(count)]
        self.fires = collections.deque()

    def __len__(self):
        return len(self._plans)

    def __getitem__(self, number):
        return self._plans[number]

    def is_armed(self, number):
        """Whether the plan exists and runs."""
        return number < len(self._plans) and self._plans[number].armed

    def busy(self):
        """Numbers of the plans that are armed or being cleared."""
        return [number for number, plan in enumerate(self._plans) if plan.armed or plan.clearing]

    def arm(self, number):
        """Start a run."""
        plan = self._plans[number]
        plan.epoch = plan.next_epoch
        plan.armed, plan.done, plan.timed_out = True, False, False
        plan.restart()

    def clear(self, number, epoch):
        """Stop a plan. `forget` is for when nothing of it is under way any more."""
        plan = self._plans[number]
        plan.armed, plan.clearing, plan.epoch = False, True, epoch

    def forget(self, number):
        """Make a plan as after reset, but for its epoch."""
        epoch = self._plans[number].epoch
        self._plans[number] = _Plan()
        self._plans[number].epoch = epoch

    def tick(self):
        """Let a cycle pass: time-outs, and plans that are done. Returns those to be cleared."""
        clearing = []
        for number, plan in enumerate(self._plans):
            if plan.clearing:
                clearing.append(number)
            if not plan.armed:
                continue
            owned = self._registers.entry("PLAN", number)
            if len(plan.full) == owned["tiles"] and plan.commands_done == owned["commands"]:
                plan.armed, plan.done = False, True
                self._status.raise_interrupt(plan_done=1 << number)
                continue
            plan.age += 1
            if plan.age == owned["timeout"]:
                plan.timed_out = True
                self._status.error("PLAN_TIMEOUT", 0, (number, owned["first_tile"], 0, 0))
        return clearing

    def count(self, tile, address, length):
        """``length`` bytes of a tile, (plan, slot, wg, wf), have become visible."""
        number, slot, _, _ = tile
        plan = self._plans[number]
        if not plan.armed:
            return
        entry = self._registers.entry("TILE", slot)
        total = plan.bytes.get(slot, 0) + length
        if entry["expected"] == 0:
            self._status.error("UNKNOWN_TILE", address, tile)
        elif slot in plan.full or total > entry["expected"]:
            self._status.error("OVER_COUNT", address, tile)
        elif total < entry["expected"]:
            plan.bytes[slot] = total
        else:
            plan.bytes.pop(slot, None)
            plan.full.add(slot)
            plan.last_full[slot] = plan.epoch
            self._status.counts["tiles_full"] += 1
            self._trigger(number, entry["command"])

    def _trigger(self, number, index):
        """A tile that this command waits for is full."""
        if index == NO_COMMAND:
            return
        plan = self._plans[number]
        command = self._registers.entry("COMMAND", index)
        plan.waiting[index] += 1
        if plan.waiting[index] == command["need"] and command["plan"] == number:
            self._status.counts["commands_fired"] += 1
            self.fires.append(command)

    def live(self, name, index):
        """Fields of a PLAN_STATUS register."""
        plan = self._plans[index]
        return {
            "PLAN_STATUS_STATE": {"armed": plan.armed, "done": plan.done, "epoch": plan.epoch,
                                  "timed_out": plan.timed_out, "clearing": plan.clearing},
            "PLAN_STATUS_TILES_DONE": {"tiles": len(plan.full)},
            "PLAN_STATUS_COMMANDS_DONE": {"commands": plan.commands_done},
        }[name]

    def tile_state(self, slot):
        """Fields of TILE_STATE for a slot."""
        counted = [plan.bytes[slot] for plan in self._plans if slot in plan.bytes]
        return {"bytes": sum(counted), "open": len(counted),
                "epoch": max(plan.last_full.get(slot, 0) for plan in self._plans)}
