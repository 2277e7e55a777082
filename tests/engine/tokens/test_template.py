"""Chat templates: rendered as transformers renders them, and bounded whatever the file holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizer_files as files
from ultra_engine.errors import RequestError
from ultra_engine.tokens import sandbox
from ultra_engine.tokens.template import ChatTemplate
from ultra_engine.weights.gguf import GGUFFile

USER = [{"role": "user", "content": "hi"}]


def refused(source: str, **context: object) -> str:
    with pytest.raises(RequestError) as caught:
        ChatTemplate(source).render(USER, **context)
    assert caught.value.param == "messages" and "\n" not in str(caught.value)
    return str(caught.value)


def test_blocks_on_their_own_lines_leave_no_blank_lines() -> None:
    source = "{% for m in messages %}\n  {% if m.role %}\nU:{{ m.content }}\n  {% endif %}\n{% endfor %}\nend"
    assert ChatTemplate(source).render(USER) == "U:hi\nend"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ {'a': '<\u00e9>&'} | tojson }}", '{"a": "<\u00e9>&"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=True, separators=(',', ':')) }}", '{"a":2,"b":1}'),
        ("{{ '\u00e9' | tojson(ensure_ascii=True) }}", '"\\u00e9"'),
        ("{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{{ loop.index }}{% endfor %}", "123"),
        ("{% for c in 'abc' %}{{ loop.last }}{{ loop.length }}{% endfor %}", "False3False3True3"),
        ("{% for i in [1, 2, 3] if i != 2 %}{{ i }}{% endfor %}", "13"),
        ("{% for x in nothing %}{% else %}none{% endfor %}", "none"),
        ("{% generation %}x{% endgeneration %}y", "xy"),
        ("{{ bos_token }}{{ eos_token }}{{ tools is none }}", "<s></s>True"),
        ("{{ messages[0]['content'] ~ '!' ~ 2 }}", "hi!2"),
        ("{{ 'a' * 3 + 'b' }} {{ 7 % 4 }} {{ 2 ** 10 }} {{ '%s' % 'x' }}", "aaab 3 1024 x"),
        ("{% set ns = namespace(n=0) %}{% for i in [1] %}{% set ns.n = i + 1 %}{% endfor %}{{ ns.n }}", "2"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(1) }}{{ add_generation_prompt }}", "[1]True"),
        ("{{ '{{ 1 }}' }}{{ messages[0].content.upper() }}", "{{ 1 }}HI"),
        ("x\n", "x"),
        ("{{ [1, 2] | join('-') }} {{ 'a\nb' | indent }} {{ 'aXb' | replace('X', '') }}", "1-2 a\n    b ab"),
        ("{{ [{'n': 1}, {'n': 2}] | join(',', attribute='n') }} {{ 'aa'.replace('a', 'b') }}", "1,2 bb"),
        ("{{ '{}={:>3}'.format('x', 1) }} {{ '-'.join('ab') }} {{ '%02d' | format(3) }}", "x=  1 a-b 03"),
    ],
)  # fmt: skip
def test_rendering(source: str, text: str) -> None:
    assert ChatTemplate(source, "<s>", "</s>").render(USER) == text


def test_content_is_never_read_as_a_template() -> None:
    messages = [{"role": "user", "content": "{{ 7 * 7 }}{% raw %}"}]
    assert ChatTemplate("{{ messages[0].content }}").render(messages) == "{{ 7 * 7 }}{% raw %}"


def test_equals_transformers() -> None:
    """The hub's own renderer, on a template with most of what real ones use."""
    from transformers.utils.chat_template_utils import render_jinja_template

    source = (
        "{%- if tools %}\n  {{- tools | tojson(indent=1) }}\n{%- endif %}\n"
        "{% for message in messages %}\n  {%- set content = message.content | trim %}\n"
        "{{ '<|' + message['role'] + '|>' }}\n{{ content }}{% if not loop.last %}<sep>{% endif %}\n"
        "{% endfor %}\n{%- if add_generation_prompt %}<|assistant|>\n{% endif %}"
    )
    messages = [{"role": "user", "content": " a "}, {"role": "assistant", "content": "<b> \u00e9"}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"x": "\u00e9<"}}}]
    (theirs,), _ = render_jinja_template(
        [messages], chat_template=source, tools=tools, add_generation_prompt=True
    )
    assert ChatTemplate(source).render(messages, tools=tools) == theirs


def test_a_model_without_template() -> None:
    with pytest.raises(RequestError, match="no chat template: send a raw prompt") as caught:
        ChatTemplate(None).render(USER)
    assert caught.value.param == "messages"


def test_a_template_may_refuse() -> None:
    assert "roles must alternate" in refused("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{% if %}", "not valid"),
        ("{% for x in y %}", "not valid"),
        ("{{ messages.0.content + 1 }}", "refuses"),
        ("{{ nothing.more }}", "refuses"),
        ("{{ 1 / 0 }}", "refuses"),
        ("{{ ''.__class__.__mro__ }}", "refuses"),
        ("{{ messages.append(1) }}", "refuses"),
        ("{{ 'x' | center(9999999999) }}", "not valid"),
        ("{{ cycler.__init__.__globals__ }}", "refuses"),
        ("{% include '/etc/passwd' %}", "refuses"),
        ("{{ lipsum.__globals__['os'].popen('id').read() }}", "refuses"),
    ],
)
def test_broken_and_hostile_templates(source: str, reason: str) -> None:
    assert reason in refused(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ 'x' * 99 }}{% endfor %}{% endfor %}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for x in [[1, 2]] recursive %}{{ loop([[1], [2]]) }}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ 10 ** 10 * 'x' }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ [0] * 10 ** 10 }}",
        "{{ range(10 ** 10) | list }}",
        "{{ '%9999999999d' | format(1) }}",
        "{{ 'x'.center(10 ** 10) }}",
        "{{ '\t'.expandtabs(10 ** 10) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ '%*d' % (10 ** 10, 1) }}",
        "{{ '{:9999999999}'.format(1) }}",
        "{{ '{:{}}'.format(1, 10 ** 10) }}",
        "{{ ('x' * 10 ** 6) | replace('x', 'y' * 10 ** 6) }}",
        "{{ ('x' * 10 ** 6).replace('x', 'y' * 10 ** 6) }}",
        "{{ ([1] * 10 ** 6) | join('y' * 10 ** 6) }}",
        "{{ ('y' * 10 ** 6).join(['a'] * 10 ** 6) }}",
        "{{ ('\n' * 10 ** 6) | indent(10 ** 6, blank=True) }}",
    ],
)
def test_templates_that_would_never_end(source: str) -> None:
    message = refused(source)
    assert "was stopped" in message or "Range too big" in message


def test_each_rendering_has_its_own_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "STEP_LIMIT", 100)
    template = ChatTemplate("{% for i in range(60) %}{% endfor %}")
    for _ in range(5):
        assert template.render(USER) == ""


def test_from_gguf(tmp_path: Path) -> None:
    with GGUFFile.open(files.byte_level(tmp_path / "t.gguf")) as file:
        template = ChatTemplate.from_gguf(file)
    assert (template.source, template.bos_token, template.eos_token) == (
        files.CHATML,
        "<|endoftext|>",
        "<|im_end|>",
    )
    with GGUFFile.open(files.sentencepiece(tmp_path / "s.gguf")) as file:
        assert ChatTemplate.from_gguf(file).source is None


def test_from_directory(tmp_path: Path) -> None:
    assert ChatTemplate.from_directory(tmp_path).source is None
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": "A{{ bos_token }}", "bos_token": "<s>"}))
    assert ChatTemplate.from_directory(tmp_path).render(USER) == "A<s>"
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    config.write_text(json.dumps({"chat_template": named}))
    assert ChatTemplate.from_directory(tmp_path).render(USER) == "D"
    (tmp_path / "chat_template.jinja").write_text("J")
    assert ChatTemplate.from_directory(tmp_path).render(USER) == "J"
