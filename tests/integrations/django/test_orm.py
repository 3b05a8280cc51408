"""Fences in the ORM, and locks around transactions, on SQLite and PostgreSQL."""

import unittest
import warnings

import pytest

pytest.importorskip("django")

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.test import TestCase, override_settings

from fencelock.contrib.django import ReleasedInTransaction, client, lock
from fencelock.errors import Stale


@pytest.fixture
def accounts(alias):
    from tests.integrations.django.shop.models import Account  # noqa: PLC0415  # after the set-up

    return Account.objects.using(alias)


# --- fences ---------------------------------------------------------------------------------------


def test_an_update_notes_the_fence_and_an_older_one_is_refused(accounts):
    account = accounts.create(owner="ann")
    with lock("account") as old:
        pass
    with lock("account") as new:
        assert accounts.filter(pk=account.pk).fenced_update(new, balance=5) == 1
    with pytest.raises(Stale, match="account") as told:
        accounts.filter(pk=account.pk).fenced_update(old, balance=1)

    assert (told.value.fence, told.value.seen) == (old.fence, new.fence)
    account.refresh_from_db()
    assert (account.balance, account.fence) == (5, new.fence)


def test_one_newer_row_refuses_the_update_of_all(accounts):
    accounts.create(owner="ann", fence=3)
    accounts.create(owner="bob", fence=9)
    with pytest.raises(Stale):
        accounts.all().fenced_update(5, balance=1)
    assert [each.balance for each in accounts.all()] == [0, 0]
    assert accounts.all().fenced_update(9, balance=1) == 2


def test_saving_with_a_lease_refuses_an_older_fence(accounts, alias):
    account = accounts.create(owner="ann")
    account.balance = 7
    account.save(lease=20)
    late = accounts.get(pk=account.pk)
    late.balance = 1
    with pytest.raises(Stale):
        late.save(lease=19)

    assert late.fence == 20
    account.refresh_from_db()
    assert (account.balance, account.fence) == (7, 20)
    late.balance = 3
    late.save(lease=21, update_fields=["balance"])
    account.refresh_from_db()
    assert (account.balance, account.fence) == (3, 21)
    account.save()  # without a lease as ever


def test_a_new_row_begins_with_its_fence(accounts, alias):
    made = accounts.model(owner="new")
    made.save(lease=12, using=alias)
    assert accounts.get(owner="new").fence == 12


def test_deleting_with_an_older_fence_is_refused(accounts):
    accounts.create(owner="ann", fence=9)
    accounts.create(owner="bob", fence=3)
    with pytest.raises(Stale):
        accounts.all().fenced_delete(5)
    assert accounts.count() == 2
    assert accounts.all().fenced_delete(9) == 2
    assert accounts.count() == 0


@pytest.mark.parametrize(("lease", "error"), [("7", TypeError), (True, TypeError), (0, ValueError)])
def test_what_is_no_fence_is_refused(accounts, lease, error):
    with pytest.raises(error, match="lease"):
        accounts.all().fenced_update(lease, balance=1)


# --- transactions ---------------------------------------------------------------------------------


def test_a_release_inside_a_transaction_warns(alias):
    with (
        pytest.warns(ReleasedInTransaction, match=f"'a'.*{alias!r}") as told,
        transaction.atomic(using=alias),
        lock("a"),
    ):
        pass
    assert told[0].filename == __file__


@pytest.mark.parametrize("release", ["end", "on_commit"])
def test_a_release_in_a_transaction_that_the_program_ends_itself_warns(alias, release):
    """Django runs no callbacks at its end, so the lock cannot wait for it."""
    transaction.set_autocommit(False, using=alias)
    try:
        with (
            pytest.warns(ReleasedInTransaction, match=repr(alias)),
            lock("a", release=release, using=alias),
        ):
            pass
    finally:
        transaction.rollback(using=alias)
        transaction.set_autocommit(True, using=alias)


def test_the_right_order_and_asking_for_it_do_not_warn(alias, elsewhere):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with lock("a"), transaction.atomic(using=alias):
            pass
        with transaction.atomic(using=alias):
            with lock("a", release="now"):
                pass
            assert not elsewhere.lock("a").locked()


def test_on_commit_releases_at_the_commit(alias, elsewhere):
    with transaction.atomic(using=alias):
        with lock("a", release="on_commit", using=alias) as lease:
            pass
        assert elsewhere.lock("a").locked()
        assert not lease.lost
    assert not elsewhere.lock("a").locked()


def fails(alias):
    with transaction.atomic(using=alias):
        with lock("a", release="on_commit", using=alias):
            pass
        raise LookupError


def test_on_commit_releases_at_the_rollback_of_a_savepoint(alias, elsewhere):
    with transaction.atomic(using=alias):
        with pytest.raises(LookupError):
            fails(alias)
        assert not elsewhere.lock("a").locked()


def test_on_commit_without_a_transaction_releases_at_the_end(alias, elsewhere):
    with lock("a", release="on_commit", using=alias):
        assert elsewhere.lock("a").locked()
    assert not elsewhere.lock("a").locked()


def test_on_commit_logs_a_lease_that_was_lost_before(alias, elsewhere, caplog):
    with transaction.atomic(using=alias), lock("a", release="on_commit", using=alias):
        elsewhere.revoke("a", reason="for the test")
    assert "releasing 'a' after its transaction" in caplog.text


def test_the_transaction_around_a_test_does_not_warn(project, elsewhere):
    class Case(TestCase):
        def runTest(self):  # noqa: N802 - as unittest calls it
            assert connections["default"].in_atomic_block
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with lock("a"):
                    pass
            with lock("b", release="on_commit"):
                pass
            assert elsewhere.lock("b").locked()
            with pytest.warns(ReleasedInTransaction), transaction.atomic(), lock("a"):
                pass

    result = unittest.TestResult()
    unittest.TestSuite([Case()]).run(result)
    assert (result.errors, result.failures, result.testsRun) == ([], [], 1)
    assert not elsewhere.lock("b").locked()


def test_a_wrong_release_is_refused(project):
    with pytest.raises(ValueError, match="on_commit"):
        lock("a", release="later")


# --- the client -----------------------------------------------------------------------------------


def test_the_client_follows_the_setting(project, server):
    with override_settings(FENCELOCK={"source": server.tcp_url, "key_prefix": "shop:"}):
        with client().lock("a"):
            assert server.command("EXISTS", "shop:a") == 1
        assert client() is client()
    with client().lock("a"):
        assert server.command("EXISTS", "fencelock:a") == 1


def test_without_a_server_it_says_what_to_set(project, monkeypatch):
    monkeypatch.delenv("FENCELOCK_URL", raising=False)
    with override_settings(FENCELOCK=None), pytest.raises(ImproperlyConfigured, match="source"):
        client()
    with override_settings(FENCELOCK=3), pytest.raises(ImproperlyConfigured, match="URL or a dict"):
        client()
