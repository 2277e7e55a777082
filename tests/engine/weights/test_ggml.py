"""Our numbers of the GGUF format are those of the `gguf` package."""

from gguf.constants import GGML_QUANT_SIZES, GGUF_MAGIC, GGMLQuantizationType, GGUFValueType
from ultra_engine.weights.ggml import MAGIC, TensorType, ValueType


def test_the_numbers_are_the_packages() -> None:
    assert MAGIC == GGUF_MAGIC
    assert {t.name: t.value for t in ValueType} == {t.name: t.value for t in GGUFValueType}
    theirs = {t.name: (t.value, GGML_QUANT_SIZES[t]) for t in GGMLQuantizationType}
    ours = {t.name: (t.value, t.block) for t in TensorType}
    assert ours.items() <= theirs.items() and len(ours) > 30
