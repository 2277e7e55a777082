"""What can go wrong for a user of the engine.

    UltraError
    ├── ModelError            the model cannot be had or used
    │   ├── UnknownModel          no such name; near ones are suggested
    │   ├── ModelFileError        corrupt, truncated or hostile file
    │   ├── UnsupportedModel      a family, tokenizer or weight format we do not run
    │   ├── DownloadError         no network and no cache, disk full, wrong sha256
    │   └── ConversionError       a checkpoint cannot be converted as asked, or not be written there
    ├── RequestError          one request cannot run (code, param)
    │   └── PromptTooLong
    └── ServerError           the server cannot start

Every message is one line that says what to do next. ``code`` is the wire's error code.
"""

from __future__ import annotations

from pathlib import Path


class UltraError(Exception):
    """Base of every error that is the user's to mend."""

    code = "engine_failed"


class ModelError(UltraError):
    """The model cannot be had or used."""


class UnknownModel(ModelError):
    """No model of that name."""


class ModelFileError(ModelError):
    """A file that is not what it claims to be. The message names the file and the reason."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = str(path), reason

    def __reduce__(self) -> tuple[type[ModelFileError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


class UnsupportedModel(ModelError):
    """A sound file that this engine does not run. The message says what it does run."""


class DownloadError(ModelError):
    """The file could not be fetched, or is not the one that was asked for."""


class ConversionError(ModelError):
    """A checkpoint cannot be converted as asked, or the result cannot be written."""


class RequestError(UltraError):
    """One request cannot run; ``param`` names the offending field."""

    code = "invalid_request"

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class PromptTooLong(RequestError):
    """The prompt does not fit into the context. The message has both numbers."""

    code = "prompt_too_long"

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(f"the prompt has {tokens} tokens, the context takes at most {limit}", "prompt")
        self.tokens, self.limit = tokens, limit

    def __reduce__(self) -> tuple[type[PromptTooLong], tuple[int, int]]:
        return type(self), (self.tokens, self.limit)


class ServerError(UltraError):
    """The server cannot start, or is already running."""
