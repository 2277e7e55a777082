"""Buffers by name, tiles that cover, descriptors of eight words."""

from dataclasses import replace

import numpy as np
import pytest
from kernels.small_program import VOCAB, build
from ultra_kernels.builder import GRAIN, Builder
from ultra_kernels.program import Attributes, Kind, Op, Scoring, Word


def test_a_buffer_is_made_once_and_keeps_its_shape() -> None:
    b = Builder()
    assert b.weight("w", 3, 4) == b.weight("w", 3, 4)
    with pytest.raises(AssertionError, match="w:"):
        b.weight("w", 4, 3)


def test_a_node_needs_its_operands() -> None:
    b = Builder()
    x, table = b.activation("x", "rows", 4), b.weight("table", 5, 4)
    with pytest.raises(AssertionError, match="missing {'tokens'}"):
        b.node(Op.EMBED, 4, {"x": x, "table": table}, Attributes())
    with pytest.raises(AssertionError, match="unknown {'bias'}"):
        tokens = b.input("tokens", "rows")
        b.node(Op.EMBED, 4, {"x": x, "table": table, "tokens": tokens, "bias": x}, Attributes())


@pytest.mark.parametrize("tiles", [1, 2, 7, 1000])
def test_tiles_never_exceed_the_units_of_an_op(tiles: int) -> None:
    program = build(tiles)
    head = [task for task in program.tasks if task.op is Op.NORM_HEAD]
    assert len(head) == min(tiles, VOCAB)
    assert max(task.count for task in head) - min(task.count for task in head) <= GRAIN
    if tiles * GRAIN <= VOCAB:
        assert all(task.start % GRAIN == 0 for task in head)


def test_descriptors_are_the_tasks() -> None:
    program = build(3)
    words = program.descriptors()
    assert words.dtype == np.int32 and words.shape == (len(program.tasks), 8)
    assert words[0, Word.WAIT] == -1 and words[0, Word.OP] == Op.EMBED
    assert words[5, Word.NEED] == program.tasks[5].need


def test_attributes_pack_into_words() -> None:
    at = Attributes(heads=6, kv_heads=3, head_dim=8, rope_dims=4, window=128, eps=1e-5, scale=0.5)
    words = at.words()
    assert words.dtype == np.int32 and words.tolist()[:7] == [6, 3, 8, 4, 0, 128, 8]
    np.testing.assert_array_equal(words[7:10].view(np.float32), np.float32([1e-5, 0.5, 1.0]))
    assert not words[10:].any()
    assert replace(at, value_dim=5).words()[6] == 5
    mixture = Attributes(experts=9, top_k=3, scoring=Scoring.SIGMOID, normalise=True, limit=7, alpha=1.5)
    words = mixture.words()
    assert words.tolist()[10:14] == [9, 3, 2, 1] and not words[:9].any()
    np.testing.assert_array_equal(words[14:].view(np.float32), np.float32([7, 1.5]))


def test_buffers_are_found_by_name() -> None:
    program = build()
    assert program.buffer("logits").kind is Kind.OUTPUT
    assert {buffer.kind for buffer in program.weights()} == {Kind.WEIGHT}
    with pytest.raises(KeyError):
        program.buffer("nothing")
