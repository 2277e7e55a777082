"""Chat messages to one prompt, by the template that comes with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from ..errors import ModelFileError, RequestError
from ..weights.gguf import GGUFFile
from .from_directory import read_json, special_text
from .sandbox import SIZE_LIMIT, Renderer, TemplateLimit, compile_template, start_counting

Messages = Sequence[Mapping[str, Any]]

FILE_LIMIT = 4 << 20
"""Bytes of a template; the longest real ones have some 20 kB."""


class ChatTemplate:
    """A model's Jinja template, compiled when first used; ``source`` None is for a model that has none."""

    def __init__(self, source: str | None, bos_token: str = "", eos_token: str = "") -> None:
        self.source, self.bos_token, self.eos_token = source, bos_token, eos_token
        self._renderer: Renderer | None = None

    @classmethod
    def from_gguf(cls, file: GGUFFile) -> ChatTemplate:
        """The default template of a file."""
        tokens = file.field("tokenizer.ggml.tokens", list, [])

        def text(name: str) -> str:
            id = file.field(f"tokenizer.ggml.{name}_token_id", int, -1)
            return str(tokens[id]) if 0 <= id < len(tokens) else ""

        return cls(file.field("tokenizer.chat_template", str, None), text("bos"), text("eos"))

    @classmethod
    def from_directory(cls, path: str | Path) -> ChatTemplate:
        """``chat_template.jinja``, or ``chat_template`` in ``tokenizer_config.json``. Raises `ModelFileError`
        for files that cannot be read."""
        config = read_json(Path(path) / "tokenizer_config.json", {})
        source = config.get("chat_template")
        if isinstance(source, list):  # several, by name
            named = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)}
            source = named.get("default")
        single = Path(path) / "chat_template.jinja"
        if single.is_file():
            if single.stat().st_size > FILE_LIMIT:
                raise ModelFileError(single, f"is larger than {FILE_LIMIT >> 20} MiB")
            source = single.read_text("utf-8", "replace")
        bos, eos = special_text(config, "bos") or "", special_text(config, "eos") or ""
        return cls(source if isinstance(source, str) else None, bos, eos)

    def render(self, messages: Messages, add_generation_prompt: bool = True, **context: Any) -> str:
        """The prompt for these messages. ``context`` adds template variables, such as ``tools``.

        Raises `RequestError` if there is no template, if it refuses the messages, or if it is not sound.
        """
        if self.source is None:
            raise RequestError("this model has no chat template: send a raw prompt instead", "messages")
        names = {"bos_token": self.bos_token, "eos_token": self.eos_token, "tools": None, "documents": None}
        given = {**names, "messages": messages, "add_generation_prompt": add_generation_prompt, **context}
        try:
            if self._renderer is None:
                self._renderer = compile_template(self.source)
            return self._run(self._renderer, given)
        except jinja2.TemplateSyntaxError as error:
            reason = f"is not valid (line {error.lineno}): {error.message}"
        except TemplateLimit as error:
            reason = f"was stopped: {error}"
        except RecursionError:
            reason = "was stopped: it calls itself without end"
        # Whatever else a template does wrong (add text to a number, say) is its or the messages' fault.
        except Exception as error:
            reason = f"refuses these messages: {error}"
        raise RequestError(f"the model's chat template {' '.join(reason.split())}", "messages")

    @staticmethod
    def _run(renderer: Renderer, given: dict[str, Any]) -> str:
        start_counting()
        size, pieces = 0, []
        for piece in renderer(given):
            size += len(piece)
            if size > SIZE_LIMIT:
                raise TemplateLimit(f"its output has more than {SIZE_LIMIT:,} characters")
            pieces.append(piece)
        return "".join(pieces)
