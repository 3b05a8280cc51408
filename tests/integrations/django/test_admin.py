"""The admin page of locks: what it shows, and which permission allows what."""

import pytest

pytest.importorskip("django")

from html import escape

from django.test import Client as Browser

import fencelock

HOSTILE = "a/<script>alert(1)</script>&?x=\"'\n%41"
LIST = "/admin/fencelock/lock/"
SHOW = "/admin/fencelock/lock/lock/"


@pytest.fixture
def elsewhere(server):
    with fencelock.Client(server.tcp_url, label="<b>worker</b>") as made:
        yield made


@pytest.fixture
def visit(project):
    """Return a browser of a staff user with these permissions."""
    from django.contrib.auth.models import Permission, User  # noqa: PLC0415  # after the set-up

    User.objects.all().delete()

    def log_in(*codenames, **more):
        user = User.objects.create_user("ann", is_staff=True, **more)
        names = Permission.objects.filter(content_type__app_label="fencelock")
        user.user_permissions.set(names.filter(codename__in=codenames))
        browser = Browser(enforce_csrf_checks="csrf" in codenames)
        browser.force_login(user)
        return browser

    return log_in


def test_the_page_lists_locks(visit, elsewhere):
    browser = visit("view_lock")
    with elsewhere.lock("orders:1"), elsewhere.lock(HOSTILE):
        page = browser.get(LIST).content.decode()
        found = browser.get(LIST, {"q": "orders:*"}).content.decode()

    assert "orders:1" in page
    assert escape(HOSTILE) in page
    assert "&lt;b&gt;worker&lt;/b&gt;" in page
    assert "<script>alert" not in page
    assert "<b>worker" not in page
    assert "orders:1" in found
    assert "alert" not in found
    assert "No locks are held" in browser.get(LIST).content.decode()


def test_the_index_links_to_the_page(visit):
    assert f'href="{LIST}"' in visit("view_lock").get("/admin/").content.decode()


def test_the_page_of_one_lock_shows_holder_and_waiters(visit, elsewhere):
    browser = visit("view_lock")
    with elsewhere.lock(HOSTILE) as lease:
        page = browser.get(SHOW, {"name": HOSTILE}).content.decode()

    assert str(lease.fence) in page
    assert "MainThread" in page
    assert "<script>alert" not in page
    assert "Take it away" not in page


def test_the_links_of_the_list_lead_to_the_lock(visit, elsewhere):
    browser = visit("view_lock")
    with elsewhere.lock(HOSTILE):
        page = browser.get(LIST).content.decode()
        link = page.partition(f'href="{SHOW}')[2].partition('"')[0]
        assert "MainThread" in browser.get(SHOW + link.replace("&amp;", "&")).content.decode()


@pytest.mark.parametrize("path", [LIST, f"{SHOW}?name=a"])
def test_without_the_permission_nothing_is_shown(visit, path):
    assert visit().get(path).status_code == 403
    assert Browser().get(path).status_code == 302


def test_taking_a_lock_away_needs_its_permission(visit, elsewhere):
    browser = visit("view_lock")
    with elsewhere.lock("a") as lease:
        assert browser.post(f"{SHOW}?name=a", {"reason": "stuck"}).status_code == 403
        assert elsewhere.status("a").held
        assert not lease.lost


def test_a_lock_is_taken_away_with_a_reason_that_is_logged(visit, elsewhere):
    from django.contrib.admin.models import LogEntry  # noqa: PLC0415  # after the set-up

    browser = visit("view_lock", "revoke_lock")
    lock = elsewhere.lock("a")
    lock.acquire()
    assert "Take it away" in browser.get(SHOW, {"name": "a"}).content.decode()
    assert browser.post(f"{SHOW}?name=a", {"reason": " "}).status_code == 200
    assert elsewhere.status("a").held

    assert browser.post(f"{SHOW}?name=a", {"reason": "stuck"}).status_code == 302
    assert not elsewhere.status("a").held
    with pytest.raises(fencelock.LeaseLost, match=r"stuck \(ann\)"):
        lock.release()
    assert LogEntry.objects.latest("pk").change_message == "Taken away: stuck"


def test_a_request_from_another_site_is_refused(visit, elsewhere):
    browser = visit("view_lock", "revoke_lock", "csrf")
    with elsewhere.lock("a"):
        assert browser.post(f"{SHOW}?name=a", {"reason": "stuck"}).status_code == 403
        assert elsewhere.status("a").held


def test_a_server_that_is_away_is_said(visit):
    from django.test import override_settings  # noqa: PLC0415  # after the set-up

    browser = visit("view_lock", "revoke_lock")
    with override_settings(FENCELOCK={"source": "redis://127.0.0.1:1", "server_timeout": 0.1}):
        for path in (LIST, f"{SHOW}?name=a"):
            assert "errornote" in browser.get(path).content.decode()
