"""Placement policies of Python: exact copies of Rust policies, and their mistakes."""

import os
import signal
import subprocess
import sys
import time

import pytest
import thermocline_lab as tl

SMALL = {"blocks": 1 << 13, "turnovers": 4, "blocks_per_unit": 64}


class Dac(tl.Policy):
    """`dac:6`: a level for each block, up with writes and down with copies."""

    classes = 6
    survivors = range(6)

    def begin(self, blocks, units, blocks_per_unit):
        self.level = [0] * blocks

    def place(self, lba, now):
        self.level[lba] = min(self.level[lba] + 1, self.classes)
        return self.level[lba] - 1

    def place_survivor(self, lba, from_class, utilisation, now):
        self.level[lba] = max(self.level[lba] - 1, 1)
        return self.level[lba] - 1


@pytest.mark.parametrize("workload", ["zipf-1.0", "hotcold-10-90", "logs"])
def test_a_copy_of_a_policy_has_exactly_its_waf(workload):
    table = tl.bench_placement([Dac(), "dac:6", "none"], workload, victim="cost-benefit", **SMALL)
    own, rust, none = table["waf"]
    assert own == rust != none and table["policy"] == ["Dac", "dac:6", "none"]


def test_the_numbers_that_a_policy_sees():
    seen = []

    class Looks(Dac):
        def place(self, lba, now):
            seen.append((lba, now))
            return super().place(lba, now)

        def place_survivor(self, lba, from_class, utilisation, now):
            assert 0 < utilisation <= 1 and 0 <= from_class < self.classes
            return super().place_survivor(lba, from_class, utilisation, now)

    tl.bench_placement([Looks()], **SMALL)
    assert [now for _, now in seen] == list(range(5 * SMALL["blocks"]))
    assert sorted(lba for lba, _ in seen[: SMALL["blocks"]]) == list(range(SMALL["blocks"]))


def test_exceptions_and_wrong_classes_end_the_measurement():
    class Raises(Dac):
        def place(self, lba, now):
            raise LookupError(f"block {lba}")

    class Beyond(Dac):
        def place(self, lba, now):
            return 9

    class Nowhere(Dac):
        survivors = range(4, 9)

    with pytest.raises(LookupError, match="block 0"):
        tl.bench_placement([Raises()], **SMALL)
    with pytest.raises(tl.SettingsError, match="class 9"):
        tl.bench_placement([Beyond()], **SMALL)
    with pytest.raises(tl.SettingsError, match="survivors in 4..9"):
        tl.bench_placement([Nowhere()], **SMALL)
    with pytest.raises(tl.SettingsError, match="sepgcc"):
        tl.bench_placement(["sepgcc"], **SMALL)


def test_an_interrupt_ends_a_policy():
    script = (
        "import thermocline_lab as tl\n"
        "print('begin', flush=True)\n"
        "try: tl.bench_placement([tl.Policy()], turnovers=200)\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begin\n"
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "interrupted\n"
