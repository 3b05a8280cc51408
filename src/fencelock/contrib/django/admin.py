"""The admin page of locks: their holders and waiters, and a way to revoke one with a reason."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from fencelock.contrib.django.bases import Form, ModelAdmin
from fencelock.contrib.django.clients import client
from fencelock.contrib.django.models import Lock
from fencelock.errors import FencelockError

SHOWN = 500  # of the locks that match; a search finds the others


class RevokeForm(Form):
    """Why a lock is taken away; the holder's LeaseLost says so."""

    reason: Any = forms.CharField(max_length=200, strip=True)


@admin.register(Lock)
class LockAdmin(ModelAdmin):
    """Lists locks for users with ``view_lock``; ``revoke_lock`` allows to take one away."""

    def has_add_permission(self, request: Any) -> bool:  # noqa: ARG002 - as Django calls it
        """Return False: a lock is made by acquiring it."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:  # noqa: ARG002 - as Django calls it
        """Return False: a lock has nothing to edit."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:  # noqa: ARG002 - as Django calls it
        """Return False: taking a lock away is a permission of its own."""
        return False

    def has_revoke_permission(self, request: Any) -> bool:
        """Return True if the user may take locks away."""
        return bool(request.user.has_perm("fencelock.revoke_lock"))

    def get_urls(self) -> list[Any]:
        """Return the pages: the list, and one lock, whose name may be any text."""
        view = self.admin_site.admin_view
        return [
            path("", view(self.changelist_view), name="fencelock_lock_changelist"),
            path("lock/", view(self.lock_view), name="fencelock_lock_show"),
        ]

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show the locks that are held or waited for."""
        self._check(request)
        match = request.GET.get("q", "").strip() or "*"
        locks, trouble = [], ""
        try:
            locks = client().locks(match, waiters=1)
        except FencelockError as error:
            trouble = str(error)
        context = {
            **(extra_context or {}),
            "title": "Locks",
            "locks": locks[:SHOWN],
            "more": len(locks) - SHOWN,
            "match": match,
            "trouble": trouble,
        }
        return self._page(request, "admin/fencelock/lock/list.html", context)

    def lock_view(self, request: Any) -> Any:
        """Show one lock; take it away on a POST with a reason."""
        self._check(request)
        name = request.GET.get("name", "")
        form = RevokeForm(request.POST or None)
        try:
            if request.method == "POST":
                if not self.has_revoke_permission(request):
                    raise PermissionDenied
                if form.is_valid():
                    return self._revoke(request, name, form.cleaned_data["reason"])
            lock, trouble = client().status(name), ""
        except (FencelockError, ValueError) as error:
            lock, trouble = None, str(error)
        context = {
            "title": name,
            "lock": lock,
            "form": form,
            "may_revoke": self.has_revoke_permission(request),
            "trouble": trouble,
        }
        return self._page(request, "admin/fencelock/lock/show.html", context)

    def _revoke(self, request: Any, name: str, reason: str) -> Any:
        user = request.user.get_username()
        before = client().revoke(name, reason=f"{reason} ({user})", by=user)
        if before is None:
            messages.warning(request, f"{name!r} was not held any more.")
        else:
            self.log_change(request, Lock(name=name), f"Taken away: {reason}")
            messages.success(request, f"{name!r} was taken from its holder.")
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:fencelock_lock_changelist"))

    def _check(self, request: Any) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _page(self, request: Any, template: str, context: dict[str, Any]) -> Any:
        whole = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        request.current_app = self.admin_site.name
        return TemplateResponse(request, template, whole)
