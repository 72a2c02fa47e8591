"""Model folders: saving, loading, checking, averaging and merging. Only safetensors, JSON and models of SentencePiece
are read, and every file is checked by its SHA-256.

    config.json              architecture, format number, framing if not the default; languages of a translation model
    model.safetensors        weights, float32
    tokenizer.json           or tokenizer.source.json + tokenizer.target.json; SentencePiece has a .spm for each
    labels.json              the labels of a classifier or tagger
    generation_config.json   the default search options; of a language model, the length of its context
    README.md                the model card, written from facts; people may edit or remove it
    manifest.json            size and SHA-256 of every file

An adapter folder holds `adapter.safetensors` instead, the few weights that a run trained for a model that it left
unchanged, and no tokenizer. Its `config.json` names that model by folder and SHA-256; both load as one.

The names and shapes of the weights must match `config.json` before anything is built. A newer format is refused.

Read `description`, then `weights`, `tensors`, `adapters`, `saving` and `folder`; `merging` makes one model of several,
and `convert` makes one of those of transformers, also from the `hub`: `foreign` has what their families share, which
are `marian`, `m2m100` and `mbart`.
"""
