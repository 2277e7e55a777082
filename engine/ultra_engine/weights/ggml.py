"""The numbers of the GGUF format: types of metadata and of tensors.

They are those of the `gguf` package, which brings its quantisers along: a tenth of a second of every start.
"""

from __future__ import annotations

from enum import IntEnum

MAGIC = int.from_bytes(b"GGUF", "little")


class ValueType(IntEnum):
    """What a metadata value is."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


class TensorType(IntEnum):
    """How a tensor is stored."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41

    @property
    def block(self) -> tuple[int, int]:
        """Elements of a block, and its bytes."""
        return _BLOCKS[self]


T = TensorType
_BLOCKS = {
    **{T.F32: (1, 4), T.F16: (1, 2), T.BF16: (1, 2), T.F64: (1, 8)},
    **{T.I8: (1, 1), T.I16: (1, 2), T.I32: (1, 4), T.I64: (1, 8)},
    **{T.Q4_0: (32, 18), T.Q4_1: (32, 20), T.Q5_0: (32, 22), T.Q5_1: (32, 24), T.Q8_0: (32, 34)},
    **{T.Q8_1: (32, 40), T.IQ4_NL: (32, 18), T.MXFP4: (32, 17), T.NVFP4: (64, 36), T.Q1_0: (128, 18)},
    **{T.Q2_K: (256, 84), T.Q3_K: (256, 110), T.Q4_K: (256, 144), T.Q5_K: (256, 176)},
    **{T.Q6_K: (256, 210), T.Q8_K: (256, 292), T.TQ1_0: (256, 54), T.TQ2_0: (256, 66)},
    **{T.IQ2_XXS: (256, 66), T.IQ2_XS: (256, 74), T.IQ3_XXS: (256, 98), T.IQ1_S: (256, 50)},
    **{T.IQ3_S: (256, 110), T.IQ2_S: (256, 82), T.IQ4_XS: (256, 136), T.IQ1_M: (256, 56)},
}
