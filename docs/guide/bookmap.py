"""Figure 1 of the paper, with residual paths, and in each box the page of this book that explains it."""

import html
from itertools import pairwise

from IPython.display import HTML

NUMBERS = {
    3: "03-tokenizer",
    5: "05-embeddings-and-positions",
    6: "06-attention",
    7: "07-rest-of-a-layer",
    8: "08-the-whole-model",
    9: "09-trainer",
    11: "11-inference",
}
LEFT, RIGHT = 175, 525
BOXES = [
    (LEFT, 690, "source text", 3),
    (LEFT, 630, "embedding", 5),
    (LEFT, 570, "+ positions", 5),
    (LEFT, 470, "self-attention", 6),
    (LEFT, 410, "add & norm", 7),
    (LEFT, 310, "feed forward", 7),
    (LEFT, 250, "add & norm", 7),
    (RIGHT, 690, "target, shifted right", 9),
    (RIGHT, 630, "embedding", 5),
    (RIGHT, 570, "+ positions", 5),
    (RIGHT, 490, "masked self-attention", 6),
    (RIGHT, 440, "add & norm", 7),
    (RIGHT, 370, "cross-attention", 6),
    (RIGHT, 320, "add & norm", 7),
    (RIGHT, 250, "feed forward", 7),
    (RIGHT, 200, "add & norm", 7),
    (RIGHT, 115, "linear and softmax", 8),
    (RIGHT, 50, "search", 11),
    (LEFT, 50, "loss", 9),
]
WIDTH, HEIGHT = 270, 38
STACKS = [(LEFT, 220, 545, "encoder layer, N times", 8), (RIGHT, 172, 545, "decoder layer, N times", 8)]
RESIDUALS = [(LEFT, 525, 410), (LEFT, 360, 250), (RIGHT, 525, 440), (RIGHT, 405, 320), (RIGHT, 285, 200)]
"""Column of each residual path, the height where it leaves the stream, and that of the sum that it ends in."""


def book_map() -> HTML:
    """Draw the model from below upwards. Each box is a link to the page that builds it."""
    parts = [
        '<defs><marker id="book-tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#1f83d6"/></marker>'
        '<marker id="book-residual" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#2e9e5b"/></marker></defs>'
    ]
    for x, top, bottom, name, page in STACKS:
        parts.append(
            f'<rect x="{x - 165}" y="{top}" width="330" height="{bottom - top}" rx="10" fill="none" '
            'stroke="#d9730d" stroke-dasharray="5 4"/>'
        )
        parts.append(_link(page, f'<text x="{x - 160}" y="{top - 7}">{name} · {page}</text>'))
    for side in (LEFT, RIGHT):
        ups = sorted((y for x, y, *_ in BOXES if x == side and y > 50), reverse=True)
        parts += [_arrow(side, low - HEIGHT / 2, side, high + HEIGHT / 2) for low, high in pairwise(ups)]
    for x, start, end in RESIDUALS:
        outside = -1 if x == LEFT else 1
        path = f"M{x},{start} H{x + outside * 152} V{end} H{x + outside * WIDTH / 2}"
        parts.append(f'<path d="{path}" fill="none" stroke="#2e9e5b" marker-end="url(#book-residual)"/>')
    memory = f"M{LEFT},{250 - HEIGHT / 2} V180 H350 V370 H{RIGHT - WIDTH / 2}"
    parts.append(f'<path d="{memory}" fill="none" stroke="#1f83d6" marker-end="url(#book-tip)"/>')
    parts.append('<text x="270" y="172" text-anchor="middle">memory</text>')
    parts += [
        _arrow(RIGHT, 115 - HEIGHT / 2, RIGHT, 50 + HEIGHT / 2),
        _arrow(RIGHT - 60, 115 - HEIGHT / 2, LEFT + WIDTH / 2, 56),
    ]
    for x, y, name, page in BOXES:
        box = (
            f'<rect x="{x - WIDTH / 2}" y="{y - HEIGHT / 2}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
            'fill="#1f83d6" fill-opacity="0.08" stroke="currentColor"/>'
            f'<text x="{x - WIDTH / 2 + 12}" y="{y + 7}">{html.escape(name)}</text>'
            f'<text x="{x + WIDTH / 2 - 12}" y="{y + 7}" text-anchor="end" font-weight="bold">{page}</text>'
        )
        parts.append(_link(page, box))
    alt = (
        "The Transformer from below upwards. Left, the encoder: source text, page 3; embedding and positions, page 5; "
        "self-attention, page 6; add and norm, feed forward, add and norm, page 7. Right, the decoder: target, page 9; "
        "embedding and positions; masked self-attention, cross-attention, which reads the encoder's memory, and feed "
        "forward, each with add and norm. A residual path leads around each of these five sublayers to its add and "
        "norm. Above them linear and softmax, page 8, then loss, page 9, and search, page 11."
    )
    return HTML(
        f'<div class="drawing"><svg role="img" aria-label="{html.escape(alt)}" viewBox="0 20 700 700" width="700" '
        f'height="700" font-size="20">{"".join(parts)}</svg></div>'
    )


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path d="M{x},{y} L{to_x},{to_y}" stroke="#1f83d6" fill="none" marker-end="url(#book-tip)"/>'


def _link(page: int, drawn: str) -> str:
    return f'<a href="{NUMBERS[page]}.html" aria-label="page {page}">{drawn}</a>'
