"""Hugging Face Marian in a race: size `small`, AdamW, its rate tuned by hand.

One BPE vocabulary of 8,000; batches by tokens, of similar lengths; bf16 weights with float32 masters (float32 where the
processor has no bf16); AdamW at a tuned 1.5e-3, 300 steps of warm-up, then linearly to zero at the end of the minutes;
label smoothing; clipping at 1; translated by CTranslate2 with beam 5. Tokenizer and batches are Dragoman's, so only the
training differs.
"""

import tempfile
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from ctranslate2.converters.transformers import BartLoader
from torch.nn import functional as F
from transformers import MarianMTModel

from dragoman.data.batching import Batches
from dragoman.data.corpus import EncodedCorpus
from dragoman.data.encoding import encode_corpus
from dragoman.system import choose_precision
from dragoman.text.prepare import prepare_data
from dragoman.text.prepared import read_split
from dragoman.text.settings import DataSettings
from dragoman.tokenizing.special_tokens import END, PADDING, START, UNKNOWN
from dragoman.tokenizing.tokenizer import Tokenizer
from dragoman.tokenizing.training import TokenizerSettings, learn_tokenizers
from dragoman.training.optimiser import MasterWeights, Precision
from peers.contest import BETAS, CLIP, DECAY, EPSILON, SMOOTHING, Padded, Shape
from peers.marian import marian
from peers.race import Clock, Outcome, Race

RATE, WARM_UP_STEPS, BATCH_TOKENS = 1.5e-3, 300, 2_048


def run(race: Race) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer, corpus = encode(race, folder)
        model = marian(Shape("small", tokenizer.size))
        steps, tokens, seconds = train(model, Batches(corpus, BATCH_TOKENS, seed=1), race.minutes)
        export(model, folder / "exported")
        translations = translate(folder / "exported", tokenizer, race)
    parameters = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    return Outcome(translations, parameters, steps, tokens, seconds)


def encode(race: Race, folder: Path) -> tuple[Tokenizer, EncodedCorpus]:
    prepare_data(DataSettings(path=str(race.data)), folder / "data")
    settings = TokenizerSettings(vocabulary_size=8_000)
    tokenizers = learn_tokenizers(lambda: read_split(folder / "data", "train"), settings)
    encode_corpus(read_split(folder / "data", "train"), tokenizers, folder / "corpus")
    return tokenizers.target, EncodedCorpus.open(folder / "corpus")


def train(model: MarianMTModel, batches: Batches, minutes: float) -> tuple[int, int, float]:
    """Train until the minutes are over, and return steps, tokens and seconds."""
    precision: Precision = "bf16" if choose_precision()[0] == "bf16" else "float32"
    masters = MasterWeights(model.train(), precision, "adamw", BETAS, EPSILON, DECAY)
    masters.attach(model)
    clock, steps, tokens, epoch = Clock(minutes), 0, 0, 0
    while clock.share < 1:
        for pairs in batches.epoch(epoch):
            batch = batches.batch(pairs)
            padded = Padded.from_batch(batch)
            logits = model(
                input_ids=padded.source,
                attention_mask=padded.source_mask.long(),
                decoder_input_ids=padded.target,
                use_cache=False,
            ).logits
            F.cross_entropy(
                logits.flatten(0, 1), padded.labels.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING
            ).backward()
            masters.collect_gradients()
            steps, tokens = steps + 1, tokens + batch.size.tokens
            masters.step(RATE * min(1, steps / WARM_UP_STEPS) * (1 - clock.share), CLIP)
            if clock.share == 1:
                break
        epoch += 1
    seconds = clock.seconds
    model.float()
    with torch.no_grad():
        for name, weight in model.named_parameters(remove_duplicate=True):
            weight.copy_(masters.weights[name])
    return steps, tokens, seconds


def export(model: MarianMTModel, folder: Path) -> None:
    """Convert the model to CTranslate2's format. Its tokens are our ids as text, because the tokenizer stays ours."""
    loader = BartLoader()  # Marian's own loader expects that decoding starts from a zero embedding
    model.config.normalize_before = model.config.normalize_embedding = False
    spec = loader.get_model_spec(model.eval())
    loader.set_vocabulary(spec, [str(number) for number in range(model.config.vocab_size)])
    config: Any = spec.config
    config.bos_token, config.eos_token, config.unk_token = str(START), str(END), str(UNKNOWN)
    config.decoder_start_token = str(START)
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


def translate(folder: Path, tokenizer: Tokenizer, race: Race, beam_size: int = 5) -> list[str]:
    engine = ctranslate2.Translator(str(folder), intra_threads=race.threads)
    sources = [[str(number) for number in (START, *ids, END)] for ids in tokenizer.encode_batch(race.sentences)]
    results = engine.translate_batch(sources, beam_size=beam_size, max_batch_size=2_048, batch_type="tokens")
    return [tokenizer.decode([int(token) for token in result.hypotheses[0]]) for result in results]
