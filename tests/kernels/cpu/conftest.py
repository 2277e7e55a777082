"""The library is built here if the checkout's is missing or old; without a compiler the tests are skipped."""

import pytest
from ultra_kernels.cpu import build


@pytest.fixture(autouse=True, scope="session")
def library() -> None:
    from ultra_kernels.cpu import abi

    try:
        abi.load()
    except abi.LibraryUnavailable:
        try:
            build.build()
        except build.BuildError as error:
            pytest.skip(str(error))


@pytest.fixture(params=["avx2", "portable"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run on each instruction-set level that this processor has."""
    from ultra_kernels.cpu import abi

    monkeypatch.setenv("ULTRA_CPU", request.param)
    try:
        return abi.level()
    except abi.LibraryUnavailable as error:
        pytest.skip(str(error))
