"""Models of Marian (Junczys-Dowmunt et al. 2018) in folders of Hugging Face transformers, as OPUS-MT publishes them.

`folder` reads such a folder and trusts nothing in it. `mapping` turns names and tensors into ours and back. `importing`
and `exporting` write whole folders.
"""
