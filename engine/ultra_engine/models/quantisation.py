"""``quantization_config`` of a config.json: what it may say for the loader to read the weights right."""

from __future__ import annotations

from .settings import Settings

SQUARE, GROUP = [128, 128], 32


def check_quantisation(settings: Settings) -> None:
    """Raise `UnsupportedModel` for a way of storing weights that is not FP8 in squares of 128 x 128 or MXFP4.

    MiMo's MXFP4 checkpoints say ``fp8``, and ``store_dtype: mxfp4`` beside it.
    """
    quantised = settings.part("quantization_config")
    method = quantised.value("quant_method")
    if method in (None, "mxfp4"):
        return
    if method != "fp8":
        settings.refuse(f"quant_method {str(method)[:40]!r}; supported: fp8, mxfp4, and none")
    square = quantised.integers("weight_block_size")
    if square != SQUARE or quantised.value("fmt") not in (None, "e4m3"):
        settings.refuse(f"FP8 in blocks of {square}; supported: e4m3 in blocks of {SQUARE}")
    store = quantised.value("store_dtype")
    if store not in (None, "mxfp4", "fp8"):
        settings.refuse(f"store_dtype {str(store)[:40]!r}; supported: mxfp4, fp8")
    if store == "mxfp4" and quantised.integer("mxfp4_block_size", default=GROUP) != GROUP:
        settings.refuse(f"MXFP4 in blocks of {quantised.value('mxfp4_block_size')}; supported: {GROUP}")
