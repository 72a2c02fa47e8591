"""The model card: `README.md` of a model folder, filled from facts."""

import dragoman
from dragoman.recipe.recipe import Recipe
from dragoman.runs.data import RunData
from dragoman.runs.validation import Measured, signs_of_nothing
from dragoman.training import TrainState


def model_card(recipe: Recipe, run_data: RunData, state: TrainState, found: Measured | None) -> str:
    """What the model is, what it learned from, and how good it was when it was saved."""
    source, target = run_data.languages
    report, model, parameters = run_data.report, recipe.model, sum(w.numel() for w in state.weights.values())
    quality = (
        f"On the dev set, greedy: BLEU {found.bleu:.1f}, chrF {found.chrf:.1f} (sacreBLEU), "
        f"{found.loss:.3f} nats a token.\n"
        if found
        else "The scores of its run are in `scores.json` there.\n"
    )
    if found and (signs := signs_of_nothing(found.facts)):
        quality += f"**It has learnt next to nothing**: {signs}.\n"
    return (
        f"# Translation, {source} to {target}\n\n"
        f"A Transformer ({model.preset}, {model.size}: width {model.d_model}, {model.encoder_layers} + "
        f"{model.decoder_layers} layers, {parameters:,} weights) made with Dragoman {dragoman.__version__}.\n\n"
        f"Trained on {report.splits['train'].pairs:,} pairs of {report.inputs['train'].name}, "
        f"{state.step:,} steps, {state.tokens:,} tokens.\n\n{quality}\n"
        f'    dragoman translate FOLDER "…"\n'
    )
