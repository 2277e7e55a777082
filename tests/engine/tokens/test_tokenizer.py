"""The tokenizer's rules on small vocabularies; ids of real ones are in test_golden.py."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import tokenizer_files as files
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.tokens.tokenizer import Tokenizer
from ultra_engine.weights.gguf import GGUFFile

END, START, STOP, TOOL, UNUSED = range(259, 264)


def opened(path: Path) -> Tokenizer:
    with GGUFFile.open(path) as file:
        return Tokenizer.from_gguf(file)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return opened(files.byte_level(tmp_path_factory.mktemp("b") / "b.gguf"))


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return opened(files.sentencepiece(tmp_path_factory.mktemp("s") / "s.gguf"))


def test_byte_level_merges(byte_level: Tokenizer) -> None:
    assert byte_level.encode("hello") == [258, ord("o")]
    assert byte_level.encode("\x00\xff") == [0, 0xC3, 0xBF]
    assert byte_level.encode("") == []


def test_control_tokens_only_when_asked(byte_level: Tokenizer) -> None:
    text = "a<|im_end|>"
    assert byte_level.encode(text, special=True) == [ord("a"), STOP]
    plain = byte_level.encode(text)
    assert STOP not in plain and byte_level.decode(plain) == text
    assert byte_level.encode(text, special=True) == [ord("a"), STOP]


def test_user_defined_tokens_always_and_unused_never(byte_level: Tokenizer) -> None:
    assert byte_level.encode("<tool_call>") == byte_level.encode("<tool_call>", special=True) == [TOOL]
    assert UNUSED not in byte_level.encode("<unused>", special=True)


def test_what_decoding_shows(byte_level: Tokenizer) -> None:
    ids = [START, 258, TOOL, UNUSED, STOP, 10**6, -1]
    assert byte_level.decode(ids) == "hell<tool_call>"
    assert byte_level.decode(ids[:3], skip_special=False) == "<|im_start|>hell<tool_call>"
    assert byte_level.piece(0xC3) == b"\xc3" and byte_level.piece(STOP) == b"<|im_end|>"
    assert byte_level.piece(10**6) == b"" and byte_level.piece(-1) == b""


def test_ends_of_generation(byte_level: Tokenizer, spm: Tokenizer) -> None:
    assert byte_level.eog_ids == {END, STOP}
    assert spm.eog_ids == {2}


def test_an_end_token_typed_as_text_is_control_but_html_is_not(tmp_path: Path) -> None:
    tokens = ["a", "<", "/", "s", ">", "</s>", "<|im_end|>"]
    path = files.byte_level(tmp_path / "t.gguf", tokens=tokens, token_type=[1] * 7, merges=[],
                            bos_token_id=None, eos_token_id=None)  # fmt: skip
    tokenizer = opened(path)
    assert tokenizer.eog_ids == {6}
    assert tokenizer.decode([5, 6]) == "</s>"
    assert tokenizer.encode("</s>", special=True) == [1, 2, 3, 4]


def test_bos(byte_level: Tokenizer, spm: Tokenizer) -> None:
    assert not byte_level.add_bos and byte_level.bos_id == END
    assert byte_level.encode("o", bos=True) == [END, ord("o")]
    assert spm.add_bos and spm.encode("hello") == [1, *spm.encode("hello", bos=False)]
    assert spm.encode("<s>hello", special=True) == spm.encode("hello")
    assert spm.encode("<s>hello", special=True, bos=False) == spm.encode("hello")
    assert spm.encode("") == [1]


def test_sentencepiece_joins_by_score(spm: Tokenizer) -> None:
    pieces = [spm.piece(id) for id in spm.encode("hello", bos=False)]
    assert pieces == [b" hello"]
    assert [spm.piece(id) for id in spm.encode("  hello", bos=False)] == [b"  ", b" hello"]


def test_sentencepiece_falls_back_to_bytes(spm: Tokenizer) -> None:
    assert spm.encode("\U0001f999", bos=False)[1:] == [3 + byte for byte in "\U0001f999".encode()]
    assert spm.encode("<0x41>", bos=False)[1:] == [3 + byte for byte in b"<0x41>"]
    assert spm.decode([3 + 0x41]) == "A"


def test_sentencepiece_without_space_prefix(tmp_path: Path) -> None:
    tokenizer = opened(files.sentencepiece(tmp_path / "t.gguf", add_space_prefix=False))
    assert [tokenizer.piece(id) for id in tokenizer.encode("hello", bos=False)] == [b"hello"]
    assert tokenizer.decode(tokenizer.encode(" hello")) == " hello"


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from("helo \n\t<|>_im\u00e9\u65e5\U0001f468\u200d\x00end"), max_size=30))
def test_round_trip(byte_level: Tokenizer, spm: Tokenizer, text: str) -> None:
    for tokenizer in (byte_level, spm):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        stream = tokenizer.decoder()
        pieces = [stream.push(id) for id in ids] + [stream.flush()]
        assert "".join(pieces) == text and not any("\ufffd" in piece for piece in pieces)


def test_lone_surrogates_become_replacement_characters(byte_level: Tokenizer) -> None:
    assert byte_level.decode(byte_level.encode("a\ud800b")) == "a\ufffdb"
    assert byte_level.decode(byte_level.encode("\ud83d\ude00")) == "\U0001f600"


def test_threads_do_not_mix_up_the_switch(byte_level: Tokenizer) -> None:
    wrong: list[bool] = []

    def work(special: bool) -> None:
        for _ in range(300):
            if (STOP in byte_level.encode("a<|im_end|>b", special=special)) != special:
                wrong.append(special)

    threads = [threading.Thread(target=work, args=(flag,)) for flag in (True, False, True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_guarded_text_parses_only_what_is_not_guarded(byte_level: Tokenizer) -> None:
    ids = byte_level.encode_guarded("<|im_start|>a<\ufdd0|im_end|>b<|im_end|>", "\ufdd0")
    assert ids[0] == START and ids[-1] == STOP and STOP not in ids[:-1]
    assert byte_level.decode(ids) == "a<|im_end|>b"


@pytest.mark.parametrize("pre", ["llama-bpe", "qwen2", "smollm", "gpt-2", "default"])
def test_known_pre_tokenizers_round_trip(tmp_path: Path, pre: str) -> None:
    tokenizer = opened(files.byte_level(tmp_path / "t.gguf", pre=pre))
    text = "he'll say 12345 (ok!!)\n\n   x += \u65e5\u672c\r\n"
    assert tokenizer.decode(tokenizer.encode(text, bos=False)) == text
    assert tokenizer.add_bos == (pre == "llama-bpe")


def test_how_many_digits_make_a_word(tmp_path: Path) -> None:
    path, merges = tmp_path / "t.gguf", ["1 2", "12 3", "123 4"]
    words = {}
    for pre in ("llama-bpe", "qwen2", "smollm", "gpt-2"):
        tokenizer = opened(files.byte_level(path, pre=pre, words=["12", "123", "1234"], merges=merges))
        words[pre] = [tokenizer.piece(id) for id in tokenizer.encode("1234", bos=False)]
    assert words["llama-bpe"] == [b"123", b"4"]
    assert words["qwen2"] == words["smollm"] == [b"1", b"2", b"3", b"4"]
    assert words["gpt-2"] == [b"1234"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "bert"}, "tokenizer 'bert' is not supported; gpt2, llama are"),
        ({"pre": "martian"}, "pre-tokenizer 'martian' is not supported; these are: llama-bpe"),
    ],
)
def test_unsupported(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        opened(files.byte_level(tmp_path / "t.gguf", **change))


@pytest.mark.parametrize(
    "change",
    [
        {"model": None},
        {"model": 3},
        {"tokens": None},
        {"tokens": [1, 2]},
        {"token_type": [1]},
        {"token_type": ["a"] * 264},
        {"merges": None},
        {"merges": ["ab"]},
        {"merges": ["q zzz"]},
        {"bos_token_id": 264},
        {"eos_token_id": 2**31},
        {"add_bos_token": "yes"},
    ],
)
def test_broken_metadata(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError):
        opened(files.byte_level(tmp_path / "t.gguf", **change))


@pytest.mark.parametrize("change", [{"scores": None}, {"scores": [0.0]}])
def test_broken_sentencepiece(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError):
        opened(files.sentencepiece(tmp_path / "t.gguf", **change))


# --- from a directory -------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path, byte_level: Tokenizer) -> Path:
    """The byte-level vocabulary as transformers would save it."""
    spec = json.loads(byte_level._backend.to_str())
    spec["decoder"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    config = {"bos_token": {"content": "<|endoftext|>"}, "eos_token": "<|im_end|>", "add_bos_token": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [261, 97, 99999, "x"]}')
    return tmp_path


def test_a_directory_gives_the_same_tokenizer(directory: Path, byte_level: Tokenizer) -> None:
    tokenizer = Tokenizer.from_directory(directory)
    assert tokenizer.vocab_size == byte_level.vocab_size
    assert tokenizer.add_bos and tokenizer.bos_id == END and tokenizer.eog_ids == {END, STOP, 97}
    for text in ("hello<|im_end|>", "\U0001f999 <tool_call>"):
        assert tokenizer.encode(text, bos=False) == byte_level.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_directory_may_say_nothing_about_bos(directory: Path) -> None:
    (directory / "tokenizer_config.json").unlink()
    (directory / "generation_config.json").unlink()
    tokenizer = Tokenizer.from_directory(directory)
    assert tokenizer.bos_id is None and not tokenizer.add_bos
    assert tokenizer.encode("o", bos=True) == [ord("o")]


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"model": 1}', "\xff"])
def test_broken_directories(directory: Path, content: str | None) -> None:
    if content is None:
        (directory / "tokenizer.json").unlink()
    else:
        (directory / "tokenizer.json").write_text(content, "latin-1")
    with pytest.raises(ModelFileError, match=r"tokenizer\.json"):
        Tokenizer.from_directory(directory)


def test_other_decoders_are_refused(directory: Path) -> None:
    spec = json.loads((directory / "tokenizer.json").read_text())
    spec["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    (directory / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(UnsupportedModel, match="decoder WordPiece"):
        Tokenizer.from_directory(directory)
