"""Runs the tour and the examples of docs/gallery, and writes their pages, with what they print, and their pictures.

    pip install -e ".[docs,torch]"
    python scripts/make_gallery.py [NAME ...]

NAME: of an example, such as `own_take`; default: all.
"""

import argparse
import tempfile
from pathlib import Path

from gallery import DOCS, examples, execute, inside, overview, page
from gallery_pictures import PICTURES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    wanted = parser.parse_args().names
    for path in examples():
        if wanted and path.stem not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            printed, names = execute(path, Path(folder))
            if path.stem in PICTURES:
                with inside(Path(folder)):
                    PICTURES[path.stem](names, path.with_suffix(".png"))
        path.with_suffix(".md").write_text(page(path, printed), encoding="utf-8")
        print(path.with_suffix(".md"))
    (DOCS / "gallery/index.md").write_text(overview(), encoding="utf-8")


if __name__ == "__main__":
    main()
