"""Reading time of a page: what it shows unfolded, at 200 words and 12 lines of code per minute."""

import re

WORDS_A_MINUTE, LINES_A_MINUTE = 200, 12
FENCE = re.compile(r"(`{3,})(.*)")
BLOCK = re.compile(r":{3,}\s*(?:\{(\S+)\}.*)?")
TARGET = re.compile(r"\([\w-]+\)=")


def minutes(page: str) -> float:
    """Return the reading time of what a page in MyST shows before anything on it is opened.

    Folded cells, dropdowns, options and quoted files do not count.
    """
    words = lines = shown = 0
    fence = kind = options = ""
    blocks: list[str | None] = []
    for line in map(str.strip, re.sub(r"\A---\n.*?^---$", "", page, flags=re.MULTILINE | re.DOTALL).splitlines()):
        if fence:
            if line == fence:
                lines += shown if not re.search("hide-(input|cell)|remove-(input|cell)", options) else 0
                fence = ""
            elif not shown and line.startswith(":"):
                options += line
            elif line and not kind.startswith("{literalinclude}") and "dropdown" not in blocks:
                shown += 1
        elif opened := FENCE.fullmatch(line):
            fence, kind = opened.groups()
            options, shown = "", 0
        elif block := BLOCK.fullmatch(line):
            blocks = [*blocks, block[1]] if block[1] else blocks[:-1]
        elif "dropdown" not in blocks and not TARGET.fullmatch(line):
            words += len(re.sub(r"\]\([^)]*\)", "]", line).replace("|", " ").split())
    return words / WORDS_A_MINUTE + lines / LINES_A_MINUTE
