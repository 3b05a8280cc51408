"""``migrate --locked``: of all hosts that start at once, one migrates, and the others wait for it.

Rules of this file:

- The lock is fencelock's. A database's advisory lock belongs to a session, which PgBouncer lends to
  others in transaction mode; so it hangs there.
- It checks what is left to do before it requests the lock, and again once it holds it.
- No database connection is kept while it waits.
"""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from fencelock.contrib.django.bases import Migrate
from fencelock.contrib.django.commands import run_locked


class Command(Migrate):
    """Django's ``migrate``, with the options ``--locked`` and ``--lock-timeout``."""

    def add_arguments(self, parser: Any) -> None:
        """Add our options to Django's."""
        super().add_arguments(parser)
        parser.add_argument(
            "--locked",
            action="store_true",
            help="migrate under a lock of fencelock; do nothing if another process has migrated",
        )
        parser.add_argument(
            "--lock-timeout",
            type=float,
            metavar="SECONDS",
            help="how long --locked waits for another process (default: for ever)",
        )

    def handle(self, *args: Any, **options: Any) -> Any:
        """Migrate, under the lock if asked to."""
        locked, timeout = options.pop("locked", False), options.pop("lock_timeout", None)
        if not locked or options.get("plan") or options.get("check_unapplied"):
            return super().handle(*args, **options)
        if self._is_done(options):
            return None
        database = options["database"]
        connections[database].close()
        name = f"migrate:{connections[database].settings_dict['NAME']}"

        def migrate() -> Any:  # unless another process did while this one waited
            return None if self._is_done(options) else Migrate.handle(self, *args, **options)

        return run_locked(self, name, migrate, timeout=timeout)

    def _is_done(self, options: dict[str, Any]) -> bool:
        """Return True if every migration is applied; a target of its own is Django's to judge."""
        if options.get("app_label") or options.get("run_syncdb"):
            return False
        executor = MigrationExecutor(connections[options["database"]])
        done = not executor.migration_plan(executor.loader.graph.leaf_nodes())
        if done and options.get("verbosity", 1) > 0:
            self.stdout.write("All migrations are applied.")
        return done
