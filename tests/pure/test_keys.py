"""_core/keys.py: six keys in one slot for any name, and none shared by two locks."""

import itertools

import pytest

from fencelock._core.keys import RESERVED, LockKeys, hash_tag, lock_key, slot

PIECES = ("", "{", "}", "{}", "a", "{a}", "~")
NAMES = sorted({"".join(parts) for parts in itertools.product(PIECES, repeat=2)} - {""})
# A stray brace costs a search of some 10 ms, once: a few such names stand for all.
QUICK = [name for name in NAMES if hash_tag(name.encode()) or not set(name) & set("{}")]
SEARCHED = ["{", "}", "a{", "}a{", "{}{"]
PREFIXES = ("", "fencelock:", "app:{x}:", "p{", "p}", "{}")


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"123456789", 0x31C3), (b"", 0), (b"{user1000}.following", 3443), (b"foo{}{bar}", 8363)],
)
def test_slots_are_those_of_the_cluster_specification(key, expected):
    assert slot(key) == expected


@pytest.mark.parametrize(
    ("key", "tag"),
    [
        (b"a", None),
        (b"{a}", b"a"),
        (b"x{a}y{b}", b"a"),
        (b"{}{a}", None),
        (b"}{a}", b"a"),
        (b"{{a}}", b"{a"),
        (b"{a", None),
        (b"a}", None),
    ],
)
def test_the_tag_is_what_stands_in_the_first_braces(key, tag):
    assert hash_tag(key) == tag


@pytest.mark.parametrize("prefix", PREFIXES)
def test_all_keys_of_a_lock_share_its_slot_and_prefix(prefix):
    for name in QUICK[:: 1 if prefix in PREFIXES[:3] else 5] + SEARCHED[:1]:
        keys = LockKeys(prefix, name)
        assert keys.lock == (prefix + name).encode()
        assert len({slot(key) for key in keys.all}) == 1, name
        assert all(key.startswith(prefix.encode()) for key in keys.all), name


def test_no_two_locks_share_a_key():
    seen = {}
    names = QUICK + SEARCHED[:3]
    for name in names:
        for key in LockKeys("fencelock:", name).all:
            assert seen.setdefault(key, name) == name
    assert len(seen) == 6 * len(names)


@pytest.mark.parametrize("name", ["a}b", "a{b", "{}", "}{", "\0{"])
def test_a_stray_brace_is_answered_by_the_first_number_that_fits(name):
    record = LockKeys("fencelock:", name).grant[1]
    lock, number = f"fencelock:{name}".encode(), record[record.rfind(b"{") + 1 : record.rfind(b"}")]
    tried = (b"%b{%x}~record#" % (lock, each) for each in itertools.count())
    assert next(key for key in tried if slot(key) == slot(lock)) == record
    assert record == b"%b{%b}~record#" % (lock, number)


@pytest.mark.parametrize("ending", [ending.decode() for ending in RESERVED])
def test_a_name_that_ends_like_a_derived_key_is_refused(ending):
    with pytest.raises(ValueError, match="must not end"):
        LockKeys("fencelock:", f"a{ending}")
    LockKeys("fencelock:", f"a{ending}x")


@pytest.mark.parametrize("prefix", PREFIXES[:3])
def test_a_record_leads_back_to_its_lock(prefix):
    for name in ("a", "a{b}c", "}x", "a{", "{}", "a b\n", "é"):
        keys = LockKeys(prefix, name)
        assert lock_key(keys.grant[1], prefix.encode()) == keys.lock
        for key in (keys.lock, *keys.all[2:]):
            assert lock_key(key, prefix.encode()) is None


@pytest.mark.parametrize("key", [b"", b"x", b"~record", b"fencelock:~record", b"{other:a}~record"])
def test_a_key_of_somebody_else_leads_nowhere(key):
    assert lock_key(key, b"fencelock:") is None


def test_each_script_is_given_the_keys_that_it_names():
    keys = LockKeys("p:", "a")
    lock, record, queue, alive, holds, revoked = keys.all
    assert keys.plain == (lock,)
    assert keys.grant == (lock, record, queue, alive, holds)
    assert keys.renew == (lock, record)
    assert keys.renew_owned == (lock, record, holds)
    assert keys.revoked == revoked
