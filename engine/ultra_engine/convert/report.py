"""What rounding cost, layer by layer: as a table for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from .mxfp4 import Loss

_PROJECTIONS = ("gate", "up", "gate_up", "down")


class Losses:
    """Losses by label (`selection.Matrix.label`), summed over the experts of a layer."""

    def __init__(self, parts: Iterable[Mapping[str, Sequence[float]]] = ()) -> None:
        self._found: dict[str, Loss] = {}
        for part in parts:
            for label, (weights, squares, errors, largest) in part.items():
                self.add(label, Loss(int(weights), squares, errors, largest))

    def add(self, label: str, loss: Loss) -> None:
        self._found[label] = self._found.get(label, Loss()) + loss

    def plain(self) -> dict[str, list[float]]:
        """For JSON, and back through the constructor."""
        return {k: [v.weights, v.squares, v.errors, v.largest] for k, v in self._found.items()}

    @property
    def total(self) -> Loss:
        return sum(self._found.values(), Loss())

    def rows(self) -> list[dict[str, object]]:
        """One object for each layer, role and projection."""
        return [
            {
                "layer": layer,
                "role": role,
                "projection": projection,
                "weights": loss.weights,
                "relative_rms": round(loss.relative_rms, 8),
                "largest_error": _significant(loss.largest),
            }
            for (layer, role, projection), loss in self._sorted()
        ]

    def table(self) -> Table:
        """A row for each layer: relative RMS and largest error of gate, up and down."""
        lines: dict[tuple[int, str], dict[str, Loss]] = {}
        for (layer, role, projection), loss in self._sorted():
            lines.setdefault((layer, role), {})[projection] = loss
        projections = [name for name in _PROJECTIONS if any(name in found for found in lines.values())]
        table = Table(box=None, pad_edge=False)
        table.add_column("layer", justify="right")
        table.add_column("")
        for name in projections:
            table.add_column(f"{name} rms", justify="right", no_wrap=True)
            table.add_column("largest", justify="right", no_wrap=True)
        for (layer, role), found in lines.items():
            cells = [cell for name in projections for cell in _cells(found.get(name))]
            table.add_row(str(layer), role, *cells)
        return table

    def _sorted(self) -> list[tuple[tuple[int, str, str], Loss]]:
        def key(label: str) -> tuple[int, str, int]:
            layer, role, projection = label.split(".")
            return int(layer), role, _PROJECTIONS.index(projection)

        found = []
        for label in sorted(self._found, key=key):
            layer, role, projection = label.split(".")
            found.append(((int(layer), role, projection), self._found[label]))
        return found


def _cells(loss: Loss | None) -> tuple[str, str]:
    return ("", "") if loss is None else (f"{loss.relative_rms:.2%}", f"{loss.largest:.3g}")


def _significant(value: float) -> float:
    return float(f"{value:.6g}")
