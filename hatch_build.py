"""Make the package's page on an index, and its links, when the package is built.

The page stands alone there, so a relative link or image would be broken. ``pyproject.toml`` says
where the repository is; all links lead to the files of the version that is built.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")


class PackagePage(MetadataHookInterface):
    """The hook that hatchling calls; its option is ``repository``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme and the URLs of the package."""
        repository, tag = self.config["repository"], f"v{metadata['version']}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = package_page(text, repository, tag)
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
        metadata["urls"] = {
            "Documentation": f"{repository}/tree/{tag}/docs",
            "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
            "Source": repository,
        }


def package_page(readme: str, repository: str, tag: str) -> str:
    """Return the README with absolute links and images.

    Args:
        readme: Markdown, with links relative to the root of the repository.
        repository: The repository's URL.
        tag: The version whose files the links lead to.
    """

    def absolute(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        return f"{image}[{text}]({repository}/{'raw' if image else 'blob'}/{tag}/{target})"

    return RELATIVE.sub(absolute, readme)
