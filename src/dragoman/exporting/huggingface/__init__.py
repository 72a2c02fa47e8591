"""Models with our own tokenizers as folders that `MarianMTModel` and `PreTrainedTokenizerFast` of transformers load."""
