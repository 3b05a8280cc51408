"""The classes of Django that this package derives from; it has no types, so checkers see none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class Untyped:
        """Has every attribute; what is called by ``super()`` or of a class stands below."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

        @classmethod
        def as_manager(cls) -> Any: ...

        def save(self, *args: Any, **kwargs: Any) -> None: ...

        def add_arguments(self, *args: Any, **kwargs: Any) -> None: ...

        def handle(self, *args: Any, **kwargs: Any) -> Any: ...

    AppConfig = Untyped
    DjangoRedisCache = Untyped
    Form = Untyped
    Migrate = Untyped
    Migration = Untyped
    Model = Untyped
    ModelAdmin = Untyped
    QuerySet = Untyped
else:
    from django.apps import AppConfig
    from django.contrib.admin import ModelAdmin
    from django.core.cache.backends.redis import RedisCache as DjangoRedisCache
    from django.core.management.commands.migrate import Command as Migrate
    from django.db.migrations import Migration
    from django.db.models import Model, QuerySet
    from django.forms import Form

__all__ = [
    "AppConfig",
    "DjangoRedisCache",
    "Form",
    "Migrate",
    "Migration",
    "Model",
    "ModelAdmin",
    "QuerySet",
]
