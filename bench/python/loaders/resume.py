"""A trainer that starts and takes its first batch in the middle of a run.

Prints the seconds from its start until imports are done and until the first batch.

    resume.py URL STATE START: the loader's state as JSON, and the start time of this process, by the clock
"""

import json
import sys
import time

import torch  # noqa: F401 - its import is measured

torch_at = time.time()

from loaderd.torch import StepLoader  # noqa: E402

imported_at = time.time()


def main(url: str, state: dict[str, object], start: float) -> None:
    with StepLoader(url, rank=0, world_size=1) as loader:
        loader.load_state_dict(state)
        batch = next(loader)
        first = time.time()
        assert loader.step == state["step"] + 1 and len(batch["input_ids"])
        json.dump({"torch": torch_at - start, "imports": imported_at - start, "first": first - start}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3]))
