"""XML with positions: every element knows its line and column.

Expat of the standard library reads it: parsers of URDF drop the lines, and bring lxml and mesh loaders with them.
Document types are refused: entities could grow without end, or name other files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from sim.files import quoted
from sim.schema.errors import Diagnostic, Mark, SceneError, SourceText

_DEEPEST = 60


@dataclass(frozen=True, eq=False)
class XmlElement:
    """An element with its attributes and the elements in it; text between them is not kept."""

    tag: str
    attributes: Mapping[str, str]
    mark: Mark
    children: list[XmlElement] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[XmlElement]:
        """The elements directly in it that have a tag."""
        return (child for child in self.children if child.tag == tag)


def read_xml(source: SourceText) -> XmlElement:
    """The root of an XML text.  Raises `SceneError`: not well-formed, a document type, nested too deep."""
    parser = expat.ParserCreate(encoding="utf-8")
    top: list[XmlElement] = []
    open_elements: list[XmlElement] = []

    def mark() -> Mark:
        return Mark(source, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_elements) >= _DEEPEST:
            raise SceneError([Diagnostic(mark(), "", f"nested more than {_DEEPEST} levels deep")])
        element = XmlElement(tag, attributes, mark())
        (open_elements[-1].children if open_elements else top).append(element)
        open_elements.append(element)

    def refuse_doctype(*_: object) -> None:
        raise SceneError(
            [Diagnostic(mark(), "", "a document type", "remove the `<!DOCTYPE ...>`: entities are not read")]
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: open_elements.pop()
    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        parser.Parse(source.text.encode(), True)
    except expat.ExpatError as error:
        place = Mark(source, max(1, error.lineno), error.offset + 1)
        raise SceneError([Diagnostic(place, "", f"not XML: {quoted(expat.ErrorString(error.code))}")]) from None
    return top[0]
