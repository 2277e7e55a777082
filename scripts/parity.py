"""Greedy text of the reference executor beside transformers', float32 on the same dequantised weights.

python scripts/parity.py [MODEL ...]        needs the extra ``dev``; a 1.5B model takes 14 GB and minutes
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from parity import compare  # noqa: E402
from ultra_engine.weights.hub import resolve  # noqa: E402


def main(models: list[str]) -> int:
    """Print one line a question; the exit code is the number of models that differ."""
    wrong = 0
    for model in models or ["smollm2-135m", "qwen2.5-coder-0.5b"]:
        same = []
        for question, ours, theirs in compare(resolve(model)):
            agree = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), len(ours))
            same.append(agree == len(ours))
            print(f"{model}: {agree} of {len(ours)} tokens equal: {question}", flush=True)
        wrong += not all(same)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
