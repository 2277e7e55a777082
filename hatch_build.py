"""Build hook: compile the CPU machine into the package. Where that fails, the package works without it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CPU = Path("kernels/ultra_kernels/cpu")


class CpuMachine(BuildHookInterface):  # type: ignore[type-arg]
    """For wheels, editable ones included: there the library lies in the checkout, where the package looks."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("cpu_build", Path(self.root) / CPU / "build.py")
        assert spec and spec.loader
        build = importlib.util.module_from_spec(spec)
        sys.modules["cpu_build"] = build
        spec.loader.exec_module(build)
        try:
            build.build()
        except build.BuildError as error:
            self.app.display_warning(f"the CPU machine was not built, the engine will be slow: {error}")
            return
        build_data["artifacts"].append(f"{CPU}/{build.LIBRARY.name}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
