"""The library is built here if the checkout's is missing or old; without a compiler the tests are skipped."""

from collections.abc import Iterator

import pytest
from kernels.cpu import emulation
from ultra_kernels.cpu import abi, build


@pytest.fixture(autouse=True, scope="session")
def library() -> None:
    if emulation.is_fresh(build.LIBRARY):
        return
    try:
        build.build()
    except build.BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(params=abi.LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run on each instruction-set level: natively where the processor has it, AVX-512 emulated elsewhere."""
    monkeypatch.setenv("ULTRA_CPU", request.param)
    if request.param in abi.available():
        yield abi.level()
    elif request.param == "avx512":
        with emulation.emulated():
            yield abi.level()
    else:
        pytest.skip(f"{request.param} is not for this processor")
