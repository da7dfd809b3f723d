"""Feed what reads foreign bytes with millions of inputs: ``python -m tests.fuzz --inputs 10000000``.

The run goes in pieces, each from a seed of its own. With ``--log FILE`` each finished piece leaves a line
there, and a run with the same file goes on where the last one ended. A failure names the call that shows it
again. `tests.fuzz.guided` does the same with inputs that a coverage-guided fuzzer makes up.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from .inputs import Inputs
from .targets import TARGETS


def run_piece(seed: int, count: int) -> Counter[str]:
    """Run `count` inputs from `seed`; returns how many each target had, or prints and raises a failure."""
    inputs = Inputs(seed)
    counts: Counter[str] = Counter()
    for _ in range(count):
        each = inputs.next()
        try:
            TARGETS[each.target](each.data, each.cuts, each.max_frame_bytes)
        except Exception:
            data = f'bytes.fromhex("{each.data.hex()}")'
            call = f"check_{each.target}({data}, {each.cuts}, {each.max_frame_bytes})"
            print(f"seed {seed}, input {counts.total()}:\n{call}", file=sys.stderr)
            raise
        counts[each.target] += 1
    return counts


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--inputs", type=int, default=1_000_000, help="how many, of all targets (%(default)s)"
    )
    parser.add_argument("--first-seed", type=int, default=0, help="the seed of the first piece (%(default)s)")
    parser.add_argument("--piece", type=int, default=100_000, help="inputs of a seed (%(default)s)")
    parser.add_argument("--log", type=Path, help="a file for the pieces that are done")
    options = parser.parse_args()

    lines = options.log.read_text("utf-8").splitlines() if options.log and options.log.exists() else []
    done = {piece["seed"]: piece for piece in map(json.loads, lines)}
    total: Counter[str] = Counter()
    seed = options.first_seed
    while total.total() < options.inputs:
        piece = done.get(seed)
        if piece is None:
            start = time.perf_counter()
            counts = run_piece(seed, min(options.piece, options.inputs - total.total()))
            piece = {"seed": seed, "counts": counts, "seconds": round(time.perf_counter() - start, 1)}
            if options.log:
                with options.log.open("a", encoding="utf-8") as log:
                    print(json.dumps(piece), file=log)
        total.update(piece["counts"])
        print(
            f"seed {seed}: {dict(piece['counts'])} in {piece['seconds']} s, {total.total()} in all",
            flush=True,
        )
        seed += 1
    print(f"{total.total()} inputs, no failure: {dict(total)}")


if __name__ == "__main__":
    main()
