// Controls that sections share: choices, sliders, boxes that scroll, and groups of buttons with one stop for Tab.
(() => {
  const { el } = page;
  let numbers = 0;

  // Radio buttons in a row. `options` are [value, label] pairs; returns an element with `choose(value)`.
  page.choice = (label, options, value, onchoose) => {
    const name = `choice-${numbers++}`;
    const inputs = options.map(([each]) =>
      el("input", { type: "radio", name, checked: each === value, onchange: () => onchoose(each) }));
    const labels = options.map(([, shown], i) => el("label", {}, inputs[i], el("span", {}, shown)));
    const box = el("fieldset", { class: "choice" }, el("legend", {}, label), el("div", {}, labels));
    box.choose = (chosen) => options.forEach(([each], i) => (inputs[i].checked = each === chosen));
    return box;
  };

  // A menu; `options` and `choose` as above.
  page.menu = (label, options, value, onchoose) => {
    const select = el("select", {}, options.map(([, shown]) => el("option", {}, shown)));
    const box = el("label", { class: "menu" }, el("span", {}, label), select);
    box.choose = (chosen) => (select.selectedIndex = options.findIndex(([each]) => each === chosen));
    select.addEventListener("change", () => onchoose(options[select.selectedIndex][0]));
    box.choose(value);
    return box;
  };

  // A check box.
  page.check = (label, checked, onchange) => {
    const input = el("input", { type: "checkbox", checked, onchange: () => onchange(input.checked) });
    return el("label", { class: "check" }, input, el("span", {}, label));
  };

  // A box for content that may be wider than the page: it scrolls, and the keyboard reaches it.
  page.scroller = (label, ...children) =>
    el("div", { class: "scroller", role: "region", "aria-label": label, tabindex: "0" }, children);

  // Make the buttons inside an element one stop for Tab: arrow keys, Home and End move between them, and
  // `stop(button)` says which is the stop.
  page.rove = (box) => {
    const buttons = () => [...box.querySelectorAll("button")].filter((button) => !button.disabled);
    const settle = (chosen) => buttons().forEach((button) => (button.tabIndex = button === chosen ? 0 : -1));
    box.stop = settle;
    settle(buttons()[0]);
    box.addEventListener("focusin", (event) => buttons().includes(event.target) && settle(event.target));
    box.addEventListener("keydown", (event) => {
      const all = buttons();
      const at = all.indexOf(document.activeElement);
      const onward = getComputedStyle(box).direction === "rtl" ? -1 : 1;
      const moves = { ArrowRight: at + onward, ArrowDown: at + 1, ArrowLeft: at - onward, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
      if (at < 0 || !(event.key in moves)) return;
      event.preventDefault();
      all[Math.max(0, Math.min(all.length - 1, moves[event.key]))].focus();
    });
    return box;
  };

  // A small "more" that unfolds; `build(box)` is called when it is first opened.
  page.more = (summary, build) => {
    const box = el("div", {});
    const details = el("details", {}, el("summary", {}, summary), box);
    details.addEventListener("toggle", () => details.open && !box.hasChildNodes() && build(box));
    return details;
  };

  // The top of the page: the name, and the chooser of parts if a text has several.
  page.top = (root) => {
    root.append(el("p", { class: "name" }, "Dragoman"), el("h1", {}, page.title));
    const { parts } = page.record;
    if (parts.length < 2) return;
    const buttons = parts.map((part, i) =>
      el("button", { type: "button", dir: "auto", onclick: () => page.set({ part: i }) }, part.source ?? part.target));
    const mark = () => buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === page.state.part)));
    root.append(el("div", { class: "parts", role: "group", "aria-label": "Sentence that the page shows" }, buttons));
    page.listen("part", mark);
    mark();
  };
})();
