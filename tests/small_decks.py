"""Small presentations, written part by part."""

import zipfile
from collections.abc import Mapping
from io import BytesIO

A = "http://schemas.openxmlformats.org/drawingml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
NAMESPACES = (
    f'xmlns:a="{A}" xmlns:r="{OFFICE}" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main"'
)


def run(words: str, format: str = "") -> str:
    """Return a run of words; `format` holds the attributes of its format, after `>` the elements in it."""
    attributes, _, elements = format.partition(">")
    return f'<a:r><a:rPr lang="en-US" {attributes}>{elements}</a:rPr><a:t>{words}</a:t></a:r>'


def paragraphs(*contents: str) -> str:
    """Return paragraphs, each of runs or of plain words."""
    runs = (content if content.startswith("<") else run(content) for content in contents)
    return "".join(f'<a:p><a:pPr lvl="0"/>{some}<a:endParaRPr lang="en-US"/></a:p>' for some in runs)


def part(tag: str, content: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<{tag} {NAMESPACES}>{content}</{tag}>'


def slide(body: str, tag: str = "p:sld", descr: str = "") -> str:
    """Return a slide, a layout or notes with these paragraphs, and a picture with this description."""
    picture = f'<p:pic><p:nvPicPr><p:cNvPr id="3" name="Picture 3" descr="{descr}"/></p:nvPicPr></p:pic>'
    shape = f"<p:sp><p:txBody><a:bodyPr/>{body}</p:txBody></p:sp>"
    return part(tag, f"<p:cSld><p:spTree>{shape}{picture if descr else ''}</p:spTree></p:cSld>")


def relations(*targets: str) -> str:
    """Return relationships, each from `kind:target`, with the identifiers r1, r2 and so on."""
    items = "".join(
        f'<Relationship Id="r{number}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, _, target) in enumerate((target.partition(":") for target in targets), 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}">{items}</Relationships>'


def deck_parts(*bodies: str) -> dict[str, str]:
    """Return the parts of a presentation whose slides have these paragraphs, with a layout."""
    numbers = range(1, len(bodies) + 1)
    listed = "".join(f'<p:sldId id="{255 + number}" r:id="r{number}"/>' for number in numbers)
    parts = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations("officeDocument:ppt/presentation.xml"),
        "ppt/presentation.xml": part("p:presentation", f"<p:sldIdLst>{listed}</p:sldIdLst>"),
        "ppt/_rels/presentation.xml.rels": relations(*(f"slide:slides/slide{number}.xml" for number in numbers)),
        "ppt/slideLayouts/slideLayout1.xml": slide(paragraphs("Click to edit the title"), "p:sldLayout"),
    }
    for number, body in enumerate(bodies, 1):
        parts[f"ppt/slides/slide{number}.xml"] = slide(body)
        parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = relations("slideLayout:../slideLayouts/slideLayout1.xml")
    return parts


def packed(parts: Mapping[str, str | bytes]) -> bytes:
    """Return an archive of parts, all of one time."""
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in parts.items():
            info = zipfile.ZipInfo(name, (2024, 2, 29, 12, 30, 2))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return written.getvalue()
