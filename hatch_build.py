"""Make the package's page on an index from the README, when the package is built.

The page stands alone there, so a relative link or image would be broken. ``pyproject.toml`` says
where the repository's files can be read. While it does not, links and images become their text.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")
WITHOUT_LINKS = "\nThe pages that are named here are in the source distribution, in `docs`.\n"


class PackagePage(MetadataHookInterface):
    """The hook that hatchling calls; its options are ``files`` and ``images``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the package."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = package_page(text, self.config.get("files"), self.config.get("images"))
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


def package_page(readme: str, files: str | None, images: str | None) -> str:
    """Return the README with absolute links and images, or with the text of those without a base.

    Args:
        readme: Markdown, with links relative to the root of the repository.
        files: The URL that a file's path is appended to, with its slash.
        images: The same for images.
    """

    def absolute(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        base = images if image else files
        return f"{image}[{text}]({base}{target})" if base else text

    page = RELATIVE.sub(absolute, readme)
    return page if files else page + WITHOUT_LINKS
