"""The tool that makes mutants: what it changes, what it spares, and which tests it runs for one."""

import random
import textwrap

from verification.mutations.generated import mutants
from verification.mutations.generated.mutants import Mutant, sites
from verification.mutations.generated.sample import HANDLES, files, part_of
from verification.mutations.generated.selection import PACKAGE, Recordings, callers
from verification.mutations.generated.survivors import SURVIVORS, reason

LUA = """\
-- a comment with 1 < 2
local left = call('PTTL', KEYS[1])
if left < 0 then
  call('DEL', KEYS[2])
end
return left + 1
"""
LUA_OF_WORDS = """\
-- it's not a string
if not known then
  return redis.error_reply('it holds ' .. "a lock or 'none', not " .. what .. ' and \\' not 1 + 1')
end
"""
PYTHON = '''\
def ms(span: "int | None" = None) -> "int | None":
    """Say 1 + 1."""
    log.info("took %s", span * 1000)
    send(span * 1000)
    raise ValueError
'''


def made(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    chance = random.Random(1)
    return [mutant for site in sites(tmp_path, name) if (mutant := site.drawn(chance))]


def test_lua_is_changed_line_by_line_but_for_its_comments(tmp_path):
    changed = made(tmp_path, "x.lua", LUA)
    assert {mutant.line for mutant in changed} == {2, 3, 4, 6}
    assert {mutant.operator for mutant in changed} >= {"comparison", "arithmetic", "number"}
    assert ("call('DEL', KEYS[2])", "") in {(each.before, each.after) for each in changed}
    for mutant in changed:
        assert mutant.text.count("\n") == LUA.count("\n")


def test_words_in_strings_of_lua_are_left_alone(tmp_path):
    changed = made(tmp_path, "x.lua", LUA_OF_WORDS)
    assert {mutant.line for mutant in changed} == {2}
    assert [mutant.after for mutant in changed] == ["if known then"]


def test_what_is_no_program_is_no_mutant(tmp_path):
    assert made(tmp_path, "x.lua", "return {1, 'NX', {2}}\n")
    assert not mutants._is_lua("return (")
    assert not mutants._is_python("return (")


def test_statements_are_left_out_and_units_confused_but_not_in_what_only_people_read():
    text = textwrap.dedent(PYTHON)
    changed = {make() for _, _, make in (*mutants._left_out(text), *mutants._by_thousand(text))}
    lines = {
        new.strip()
        for each in changed
        for old, new in zip(text.split("\n"), each.split("\n"), strict=True)
        if old != new
    }
    assert {"pass", "send(span)"} <= lines
    assert all("1 + 1" in each for each in changed)


def test_every_file_has_a_part():
    parts = {part_of(file) for file in files()}
    assert {"scripts", "core", "ports", "integrations", "command line", HANDLES} == parts


def test_a_fragment_is_tried_by_the_tests_of_all_scripts_that_it_is_part_of():
    assert {"acquire", "release"} <= callers("_grant")
    assert callers("acquire") == {"acquire", "acquire_next", "once_start"}


def test_cheap_tests_come_first_and_then_the_cheapest_of_each_file():
    recordings = Recordings()
    recordings.seconds = {
        "a.py::slow": 9.0,
        "a.py::quick": 0.1,
        "b.py::one": 5.0,
        "c.py::two": 0.02,
        "c.py::one": 0.01,
    }
    ordered = recordings._in_turn(recordings.seconds)
    assert ordered == ["c.py::one", "c.py::two", "a.py::quick", "b.py::one", "a.py::slow"]


def test_each_reason_is_of_a_line_that_is_still_there():
    for each in SURVIVORS:
        lines = {line.strip() for line in (PACKAGE / each["file"]).read_text().split("\n")}
        assert each["before"] in lines, each
        assert reason(each) == each["why"]


def test_what_never_alters_behaviour_has_its_reason_everywhere():
    row = {"file": "", "before": "def f(a, *, b=1):", "after": "def f(a, /, b=1):"}
    assert "by name" in reason(row)
    assert not reason(row | {"after": "def f(a, *, b=2):"})


def test_what_a_module_defines_is_tried_by_the_tests_that_use_it():
    recordings = Recordings()
    recordings.lines.clear()
    recordings.lines["_core/a.py:f:return LIMIT + 1"] = {"a"}
    recordings.lines["_core/b.py:g:return LIMITED"] = {"b"}
    recordings.files["_core/c.py"] = {"c"}
    line = {"file": "_core/c.py", "line": 1, "operator": "", "after": "", "text": ""}
    assert recordings._users(Mutant(before="LIMIT: Final = 1.0", **line)) == {"a"}
    assert recordings._users(Mutant(before="UNUSED = 1", **line)) == {"c"}
