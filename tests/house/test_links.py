"""Links of the documentation lead somewhere: files, headings, and from the first page of the site to every other."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gallery import DOCS, floors
from tools.places import ROOT

PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")


def prose(path: Path) -> str:
    """The page without code."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """File and heading that a page links to; those of the web are left out."""
    for target in LINK.findall(prose(path)):
        if "://" not in target and not target.startswith("mailto:"):
            file, _, heading = target.partition("#")
            yield ((path.parent / file).resolve() if file else path), heading


def headings(path: Path) -> set[str]:
    """Names of the headings of a page, as both GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower())) for heading in found}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(path):
    dead = [str(file) for file, _ in links(path) if not file.exists()]
    dead += [f"{file.name}#{name}" for file, name in links(path) if name and name not in headings(file)]
    assert dead == []


def test_pages_of_the_site_link_to_pages_of_the_site():
    pages = [page for page in PAGES if page.is_relative_to(DOCS)]
    assert [(p.name, str(file)) for p in pages for file, _ in links(p) if not file.is_relative_to(DOCS)] == []


def test_every_page_is_reached_from_the_navigation():
    named = [(DOCS / page).resolve() for _, pages in floors() for page in pages]
    assert [page for page in named if not page.exists()] == [] and len(set(named)) == len(named)
    reached = {*named, *(file for page in named for file, _ in links(page))}
    assert [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page.resolve() not in reached] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_text_is_lost_as_a_tag(path):
    """`<name>` outside of code is a tag of HTML, which nobody sees."""
    text = re.sub(r"<!--.*?-->", "", prose(path), flags=re.DOTALL)
    text = re.sub(r"^    .*$", "", re.sub(r"`[^`]*`", "", text), flags=re.MULTILINE)
    assert set(re.findall(r"<[A-Za-z/][^>\n]*>", text)) <= {"<br>"}
