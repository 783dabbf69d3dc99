"""docs/llms.txt: the pages of the site with a sentence on each, for programs that read (https://llmstxt.org)."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from gallery import DOCS, ROOT, floors

HEAD = """# {name}

> {about}

Pages are named by their files in `docs/`; on the site each is a page of the same name that ends in `.html`.
Scenes are YAML files that `simopt run SCENE` simulates and identifies; programs begin with `import sim`.
"""


def llms(made: Mapping[Path, str]) -> str:
    """The list, floor by floor; made: pages as they will be, of those that are written from code."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    out = [HEAD.format(name=project["site_name"], about=project["site_description"])]
    for floor, pages in floors():
        out.append(f"## {floor}\n")
        for page in pages:
            path = DOCS / page
            heading, sentence = about(page, made[path] if path in made else path.read_text(encoding="utf-8"))
            out.append(f"- [{heading}]({page}): {sentence}")
        out.append("")
    return "\n".join(out).rstrip() + "\n"


def about(page: str, text: str) -> tuple[str, str]:
    """The heading of a page and the first sentence below it, as plain text."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    heading = re.search(r"^# (.*)$", text, re.MULTILINE)
    assert heading, f"{page} has no heading"
    for paragraph in text[heading.end() :].strip().split("\n\n"):
        if not paragraph.startswith(("#", "|", "!", "```", "[")):
            break
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("**", "")
    return heading.group(1), re.split(r"(?<=[^A-Z][.?!])\s", plain)[0]
