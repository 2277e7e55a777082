"""Converted models on the executors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from ultra_engine.convert.convert import Conversion
from ultra_engine.executors import create, tiles
from ultra_engine.models import lower, read_config, recipes
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_engine.weights.load import checkpoint_weights
from ultra_kernels.step import Sizes, Step

ROWS = 20


def logits(folder: Path, executor: str) -> torch.Tensor:
    """Of a prompt, [rows, vocabulary]; the reference executor is exact."""
    with Checkpoint.open(folder) as checkpoint:
        config = read_config(checkpoint)
        program = lower(config, tiles(executor, None))
        weights = checkpoint_weights(checkpoint, recipes(config, checkpoint), program)
        made = create(
            executor,
            program,
            weights,
            Sizes(rows=ROWS, blocks=4),
            precision="float32" if executor == "reference" else None,
            threads=None,
            pin=False,
            progress=lambda done, total: None,
        )
        step = Step(range(ROWS), range(ROWS), [0] * ROWS, [range(4)], range(ROWS))
        found = made.run(step).clone()
        made.close()
    return found


@pytest.mark.parametrize("model", ["moe", "gpt_oss"])
def test_both_executors_run_it(model: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source: Path = request.getfixturevalue(model)
    with Conversion(source, tmp_path / "out", {"experts": "mxfp4"}) as conversion:
        conversion.run()
    before, exact = logits(source, "reference"), logits(tmp_path / "out", "reference")
    fast = logits(tmp_path / "out", "cpu")
    assert 0 < (exact - before).norm() / before.norm() < 0.2
    assert (fast - exact).norm() / exact.norm() < 0.02
