"""A program for a browser: which texts below some elements can hardly be read on their ground."""

CONTRASTS = """(roots) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const bytes = (...colours) => {
    context.clearRect(0, 0, 1, 1);
    for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    const colours = [];
    for (let each = node; each; each = each.parentElement) colours.unshift(getComputedStyle(each).backgroundColor);
    return colours;
  };
  const found = [];
  for (const root of document.querySelectorAll(roots)) {
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode.parentElement;
      if (!texts.currentNode.data.trim() || !node.checkVisibility()) continue;
      if (node.closest(".hidden, option, svg, .headerlink")) continue;
      const behind = ground(node);
      const [a, b] = [light(bytes(...behind)), light(bytes(...behind, getComputedStyle(node).color))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${node.className} ${texts.currentNode.data}`);
    }
  }
  return [...new Set(found)];
}"""
"""Takes a selector; returns the ratio, class and text of what has a contrast below 4.5 (WCAG 2.2, level AA)."""
