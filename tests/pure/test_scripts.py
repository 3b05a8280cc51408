"""The files of the scripts: each rule and each constant is written once, each call is described."""

import re
from pathlib import Path

import pytest

from fencelock import scripts
from fencelock.scripts import constants

FILES = sorted(Path(scripts.__file__).parent.rglob("*.lua"))
TEXTS = {path.stem: path.read_text() for path in FILES}
CONSTANTS = {name: value for name, value in vars(constants).items() if name.isupper()}


def named(text: str) -> list[str]:
    """Return the constants that a file asks for."""
    return " ".join(re.findall(r"^ *-- constants: (.*)$", text, re.MULTILINE)).split()


def test_no_function_is_written_twice():
    names = [
        name
        for text in TEXTS.values()
        for name in re.findall(r"^local function (\w+)", text, re.MULTILINE)
    ]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_used_and_its_value_written_nowhere_else(name):
    assert any(name in named(text) for text in TEXTS.values())
    assert not any(re.search(rf"local {name}\b", text) for text in TEXTS.values())


def test_the_server_gets_the_values_of_python_in_place_of_the_constants():
    source = scripts.HEARTBEAT.source.decode()
    assert f"call('PEXPIRE', KEYS[base + 2], {constants.WAITERS_MS})\n" in source


def test_a_name_may_contain_that_of_a_constant():
    text = scripts._with_value("ROOM = FENCE_ROOM, ROOMS, (ROOM)", "ROOM", "7")
    assert text == "7 = FENCE_ROOM, ROOMS, (7)"


@pytest.mark.parametrize("script", scripts.ALL, ids=lambda each: each.name)
def test_no_constant_is_left_by_its_name(script):
    words = set(re.findall(r"\w+", code(script.source.decode())))
    assert not words & set(CONSTANTS)


def code(text: str) -> str:
    return re.sub(r"--.*", "", text)


@pytest.mark.parametrize("script", scripts.ALL, ids=lambda each: each.name)
def test_each_script_begins_with_its_keys_arguments_and_replies(script):
    header = re.match(r"(--.*\n)+", TEXTS[script.name])
    assert header is not None
    assert "\n-- KEYS  " in header[0]
    assert "\n-- Reply " in header[0]
    assert ("\n-- ARGV  " in header[0]) == ("ARGV" in code(script.source.decode()))


@pytest.mark.parametrize("name", [each for each in TEXTS if each.startswith("_")])
def test_each_fragment_says_what_it_is_and_is_used(name):
    assert TEXTS[name].startswith("-- Fragment: ")
    assert any(
        re.search(rf"^-- include: (\w+/)?{name}$", text, re.MULTILINE) for text in TEXTS.values()
    )
