"""Tensors of a GGUF file become packed weights as they are."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from ultra_engine.errors import ModelFileError
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.load import load_weights
from ultra_kernels.builder import Builder


def test_mxfp4_rows_are_the_files_own(tmp_path: Path) -> None:
    rows = np.random.default_rng(5).integers(0, 255, (7, 3 * 17), dtype=np.uint8)
    path = tmp_path / "model.gguf"
    out = gguf.GGUFWriter(path, "llama")
    out.add_tensor("token_embd.weight", rows, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    with GGUFFile.open(path) as file:
        builder = Builder()
        builder.weight("embed.weight", 7, 96)
        packed = load_weights(file, builder.build())["embed.weight"]
        assert packed.format.name == "mxfp4" and packed.shape == (7, 96)
        assert torch.equal(packed.data, torch.from_numpy(rows))
        want = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType.MXFP4)
        np.testing.assert_array_equal(packed.format.rows(packed.data).numpy(), want)
        builder.weight("norm.weight", 96)
        with pytest.raises(ModelFileError, match="there is no tensor output_norm.weight"):
            load_weights(file, builder.build())
