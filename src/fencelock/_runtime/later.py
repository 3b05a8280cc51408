"""Classes that are imported when they are first used, as most programs use few of them."""

from __future__ import annotations

from importlib import import_module

from fencelock._runtime.typed import Any, Self


class Later(str):
    """Stands for a class: calling it makes an object of that class.

    In annotations it is the text of an expression that imports the class, which is what
    ``typing.get_type_hints`` makes of text.
    """

    __slots__ = ("_class", "_module")

    _module: str
    _class: str

    def __new__(cls, module: str, name: str) -> Self:
        made = super().__new__(cls, f"__import__({module!r}, fromlist=[{name!r}]).{name}")
        made._module, made._class = module, name
        return made

    def load(self) -> Any:
        """Return the class; while another thread imports its module, this one waits for it."""
        return getattr(import_module(self._module), self._class)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Make an object of the class."""
        return self.load()(*args, **options)

    def __getitem__(self, parameters: Any) -> Any:
        """Return the generic class for these parameters; of the text, its characters."""
        if isinstance(parameters, (int, slice)):
            return super().__getitem__(parameters)
        return self.load()[parameters]

    def __or__(self, other: Any) -> Any:
        """Return the union with another type."""
        return self.load() | other

    def __ror__(self, other: Any) -> Any:
        """Return the union with another type."""
        return other | self.load()
