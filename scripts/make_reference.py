"""Writes docs/reference and the generated tables of other pages anew; with --check only says what is not current."""

import sys
from pathlib import Path

from reference_pages.api import PACKAGES, api_page, package_page
from reference_pages.columns import columns_page, columns_table
from reference_pages.commands import commands_page
from reference_pages.configuration import configuration_page, node_page
from reference_pages.markdown import with_blocks
from reference_pages.parts import parts_table

DOCS = Path(__file__).parents[1] / "docs"


def pages() -> dict[Path, str]:
    """Every page that has something made, as it should be."""
    reference = DOCS / "reference"
    whole = {
        reference / "configuration.md": configuration_page(),
        reference / "node-files.md": node_page(),
        reference / "commands.md": commands_page(),
        reference / "columns.md": columns_page(),
        reference / "api.md": api_page(),
        **{reference / "api" / f"{package}.md": package_page(package) for package in PACKAGES},
    }
    mixed = {
        DOCS / "methods.md": parts_table,
        DOCS / "results.md": columns_table,
        reference / "files.md": columns_table,
    }
    return whole | {path: with_blocks(path.read_text(encoding="utf-8"), made) for path, made in mixed.items()}


def main(arguments: list[str]) -> int:
    """0 where all is current, or was written."""
    stale = {path: text for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text}
    for path, text in stale.items():
        sys.stdout.write(f"{path.relative_to(DOCS.parent)}\n")
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
