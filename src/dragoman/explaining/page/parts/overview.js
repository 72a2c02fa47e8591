page.section({
  id: "overview",
  title: "What happened",
  lead: "The text, and what the model made of it.",
  open: true,
  build(root, part) {
    const { el } = page;
    root.append(el("p", { class: "sentence", dir: "auto" }, part.source ?? ""), el("p", { class: "sentence", dir: "auto" }, part.target));
  },
});
