"""`import ultra_sdk` must be quick and light: fails if it takes too long or pulls in a heavy package.

python scripts/import_budget.py [MILLISECONDS]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUNS = 5
BUDGET_MS = 150.0
HEAVY = ("torch", "numpy", "textual", "rich", "transformers", "httpx", "ultra_engine", "ultra_kernels")
SDK = str(Path(__file__).parent.parent / "sdk")

PROBE = f"""
import sys, time
sys.path.insert(0, {SDK!r})
start = time.perf_counter()
import ultra_sdk
ultra_sdk.connect, ultra_sdk.Delta, ultra_sdk.EngineError
print((time.perf_counter() - start) * 1000)
print(",".join(name for name in {HEAVY!r} if name in sys.modules))
"""


def probe() -> tuple[float, str]:
    """Milliseconds to the first use of the client in a fresh interpreter, and the heavy modules it loaded."""
    out = subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True).stdout
    milliseconds, heavy = out.split("\n")[:2]
    return float(milliseconds), heavy


def main() -> int:
    budget = float(sys.argv[1]) if len(sys.argv) > 1 else BUDGET_MS
    probes = [probe() for _ in range(RUNS)]
    best, heavy = min(probes)
    print(f"import ultra_sdk: {best:.0f} ms (best of {RUNS}; budget {budget:.0f} ms)")
    if heavy:
        print(f"it must not load {heavy}", file=sys.stderr)
    return int(best > budget or bool(heavy))


if __name__ == "__main__":
    sys.exit(main())
