"""Models whose rows refuse writes with an older fence than they have seen.

class Account(FencedModel):
    balance = models.IntegerField()

with lock("account:7") as lease:
    Account.objects.filter(pk=7).fenced_update(lease, balance=5)
"""

from __future__ import annotations

from typing import Any

from django.db import models, transaction

from fencelock.contrib.django.bases import Model, QuerySet
from fencelock.errors import Stale
from fencelock.lease import BaseLease


def fence_of(lease: Any) -> int:
    """Return the fence of a lease, or of an int that is one; TypeError or ValueError if not."""
    fence = lease.fence if isinstance(lease, BaseLease) else lease
    if isinstance(fence, bool) or not isinstance(fence, int):
        raise TypeError(f"lease must be a lease or its fence, not {lease!r}")
    if fence <= 0:
        raise ValueError("lease has no fence: a lock with wait=Poll() has none")
    return fence


class FencedQuerySet(QuerySet):
    """A queryset that can write under a fence."""

    def fenced_update(self, lease: BaseLease | int, /, **values: Any) -> int:
        """Update these rows, and note the fence of the lease in them; return how many.

        All or none: the rows that another holder has written with a greater fence refuse it for
        all.

        Raises:
            Stale: a row has seen a greater fence; nothing was written.
            TypeError, ValueError: ``lease`` is none, or has no fence.
        """
        fence = fence_of(lease)
        with transaction.atomic(using=self._write_alias()):
            changed: int = self.filter(fence__lte=fence).update(**values, fence=fence)
            self._refuse_newer(lease, fence)
        return changed

    def fenced_delete(self, lease: BaseLease | int, /) -> int:
        """Delete these rows, all or none; return how many, without those of other models.

        Raises:
            Stale, TypeError, ValueError: as ``fenced_update``.
        """
        fence = fence_of(lease)
        with transaction.atomic(using=self._write_alias()):
            # Locked by this write, the rows cannot see a greater fence before they are gone.
            self.filter(fence__lte=fence).update(fence=fence)
            self._refuse_newer(lease, fence)
            _, counts = self.delete()
        gone: int = counts.get(self.model._meta.label, 0)  # noqa: SLF001 - Django's documented name
        return gone

    def _write_alias(self) -> str:
        self._for_write = True
        alias: str = self.db
        return alias

    def _refuse_newer(self, lease: BaseLease | int, fence: int) -> None:
        """Raise Stale if one of these rows has seen a greater fence."""
        newer = self.using(self.db).filter(fence__gt=fence)
        seen = newer.order_by().aggregate(models.Max("fence"))["fence__max"]
        if seen is not None:
            name = lease.name if isinstance(lease, BaseLease) else self.model._meta.label  # noqa: SLF001 - as above
            raise Stale(name, fence=fence, seen=seen)


class FencedModel(Model):
    """A model whose rows remember the greatest fence with which they were written."""

    fence: Any = models.BigIntegerField(default=0, editable=False)

    objects: Any = FencedQuerySet.as_manager()

    class Meta:
        """Has no table of its own."""

        abstract = True

    def save(self, *args: Any, lease: BaseLease | int | None = None, **kwargs: Any) -> None:
        """Save; with ``lease`` only if the row has seen no greater fence.

        Raises:
            Stale: it has; nothing was written.
            TypeError, ValueError: ``lease`` is none, or has no fence.
        """
        if lease is None:
            super().save(*args, **kwargs)
            return
        fence, before = fence_of(lease), self.fence
        try:
            fields = kwargs.get("update_fields")
            if fields is not None:
                kwargs["update_fields"] = {*fields, "fence"}
            rows = FencedQuerySet(type(self), using=kwargs.get("using") or self._state.db)
            with transaction.atomic(using=rows._write_alias()):  # noqa: SLF001 - of this file
                if self.pk is not None:
                    rows.filter(pk=self.pk).fenced_update(lease)  # the row is locked from here on
                self.fence = fence
                super().save(*args, **kwargs)
        except BaseException:
            self.fence = before
            raise
