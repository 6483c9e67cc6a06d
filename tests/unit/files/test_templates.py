"""The templates decide nothing, and print nothing without a quoting filter."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

from provisioner.errors import ProvisionerError
from provisioner.files import render as rendering
from provisioner.files.quoting import (
    FILTERS,
    SecretFile,
    Variable,
    Word,
    argv,
    comment,
    df,
    refuse_unquoted,
    requirement,
    sbatch,
    sh,
    token,
)
from provisioner.resources import resource

TEMPLATES = sorted(resource("templates").rglob("*.j2"))
#: What a template may be made of. No arithmetic, no comparison, no test, no call, no assignment.
ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.For,
    nodes.If,
    nodes.Filter,
    nodes.Getattr,
    nodes.Name,
    nodes.Tuple,
)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_spells_and_decides_nothing(path: Path) -> None:
    tree = jinja2.Environment(autoescape=False).parse(path.read_text(encoding="utf-8"))
    for node in tree.find_all(nodes.Node):
        assert isinstance(node, ALLOWED), f"{path.name}:{node.lineno}: {type(node).__name__}"
        if isinstance(node, nodes.Output):
            for part in node.nodes:
                assert isinstance(part, nodes.TemplateData) or (isinstance(part, nodes.Filter) and part.name in FILTERS)
        if isinstance(node, nodes.If):
            assert isinstance(node.test, nodes.Getattr), f"{path.name}:{node.lineno}: if on a field of the view only"
        if isinstance(node, nodes.Name) and node.ctx == "load":
            names = {name.name for loop in tree.find_all(nodes.For) for name in loop.target.find_all(nodes.Name)}
            names |= {loop.target.name for loop in tree.find_all(nodes.For) if isinstance(loop.target, nodes.Name)}
            assert node.name in {"it", *names}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_says_first_where_it_comes_from(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(("#!", "{%"))]
    assert lines[0] == "# {{ it.header | comment }}"


def test_an_unquoted_value_is_refused() -> None:
    with pytest.raises(TypeError, match="without one of the filters"):
        rendering._environment().from_string("{{ it }}").render(it="text")
    with pytest.raises(TypeError, match="without one of the filters"):
        refuse_unquoted(3)
    with pytest.raises(jinja2.UndefinedError):
        rendering._environment().from_string("{{ it.nothing | sh }}").render(it=object())


def test_no_name_or_number_of_the_matrix_stands_in_render() -> None:
    tree = ast.parse(Path(rendering.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not re.search(r"torch|jax|nvidia|sm_|[0-9]+\.[0-9]", node.value.lower()), node.lineno


@pytest.mark.parametrize(
    ("entry", "quoted"),
    [
        ("plain", "plain"),
        ("", "''"),
        ("two words", "'two words'"),
        ("it's $HOME", '"it\'s \\$HOME"'),
        ("`reboot`", '"\\`reboot\\`"'),
        ("a\\", '"a\\\\"'),
        (("a", "b c"), "a 'b c'"),
        (Word(parts=("a", "b")), "ab"),
        (Word(parts=(Variable(name="HOME"), '/"x"')), '"${HOME}/\\"x\\""'),
        (Word(parts=(SecretFile(id="TOKEN"),)), '"$(cat /run/secrets/TOKEN)"'),
    ],
)
def test_words_of_a_shell(entry: object, quoted: str) -> None:
    assert sh(entry) == quoted


def test_values_of_a_dockerfile() -> None:
    assert df('a "b" $HOME \\') == '"a \\"b\\" \\$HOME \\\\"'
    assert argv(("python", "-c", 'print("ä\n")')) == '["python", "-c", "print(\\"\\u00e4\\n\\")"]'


def test_values_of_a_directive() -> None:
    assert sbatch("gpu:a100:2") == "gpu:a100:2"
    assert sbatch("a#b") == '"a#b"'
    assert sbatch('a "b" \\') == '"a \\"b\\" \\\\"'


def test_a_comment_stays_one() -> None:
    assert comment("ends with \\") == "ends with \\."
    with pytest.raises(ProvisionerError, match="control character"):
        comment("two\nlines")


@pytest.mark.parametrize("text", ["a b", "", "-rf", "$x", "a;b", "a\n", "ä", "a'b", "a`b`", "a#b"])
def test_a_token_is_a_plain_word(text: str) -> None:
    with pytest.raises(ProvisionerError):
        token(text)


@pytest.mark.parametrize(
    "text",
    [
        "torch==2.13.0+cpu",
        "torch[opt-einsum]>=2.9,<3",
        "flash-attn",
        "a @ https://w.example/a-1-py3-none-any.whl",
        'a==1; python_version < "3.12"',
    ],
)
def test_what_is_a_requirement(text: str) -> None:
    assert requirement(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "--index-url=https://evil.example",
        "-e .",
        "a==1 --hash=sha256:0",
        "a==1\n-e .",
        "a==1 # x",
        "a==1 -r b",
        "a @ file:///x y",
        "",
    ],
)
def test_what_is_an_option_of_pip_and_no_requirement(text: str) -> None:
    with pytest.raises(ProvisionerError):
        requirement(text)


@pytest.mark.parametrize("text", ["a\nb", "a\0b", "a\x1bb", "a\u2028b", "a\ud800b"])
@pytest.mark.parametrize("quote", [sh, df, sbatch, comment], ids=lambda quote: quote.__name__)
def test_what_no_line_can_carry_is_refused(quote: type, text: str) -> None:
    with pytest.raises(ProvisionerError):
        quote(text)
