"""A model folder in and out. Only safetensors, JSON and models of SentencePiece are read, and every file is checked by
its SHA-256.

    config.json              architecture, format number, framing if not the usual; languages of a translation model
    model.safetensors        weights, float32
    tokenizer.json           or tokenizer.source.json + tokenizer.target.json; SentencePiece has a .spm beside each
    labels.json              the labels of a classifier or tagger
    generation_config.json   the default search options; of a language model, how much of a text it sees
    README.md                the model card, written from facts; people may edit or remove it
    manifest.json            size and SHA-256 of every file

An adapter folder holds `adapter.safetensors` instead, the few weights that a run learnt beside a model that it left as
it was, and no tokenizer. Its `config.json` names that model by folder and SHA-256; both load as one.

The names and shapes of the weights must match `config.json` before anything is built. A newer format is refused.

Read `description`, then `weights`, `tensors`, `adapters` and `folder`; `merging` makes one model of several, and
`marian` reads those of transformers, also from the `hub`.
"""
