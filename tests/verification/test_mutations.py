"""The sown defects of ports and transports: their checks exist, and a few are really found."""

import pytest

from verification.mutations.daily import all_defects
from verification.mutations.real import ROOT, tried
from verification.mutations.sown import SOWN

QUICK = ("a script that the server forgot", "a deadline that counts", "a server's error is")


@pytest.mark.parametrize("sown", SOWN, ids=lambda sown: sown.name)
def test_the_check_of_each_exists(sown):
    file, _, name = sown.check.partition("[")[0].partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_each_has_a_name_of_its_own():
    names = [each.name for each in all_defects()]
    assert sorted(names) == sorted(set(names))


@pytest.mark.slow
@pytest.mark.parametrize("beginning", QUICK)
def test_some_are_found_here(beginning):
    (sown,) = (each for each in SOWN if each.name.startswith(beginning))
    assert tried(sown)
