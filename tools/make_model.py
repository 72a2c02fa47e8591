"""Makes the model that ships inside the package: .venv/bin/python tools/make_model.py

It learns from the training set of the phrasebook, which `make_phrasebook.py` writes, and from nothing else, in a
quarter of an hour on two cores. The run stays in ``runs/shipped``, where a run that was stopped goes on; remove it
after the phrasebook has changed. `dragoman.quantize` then rounds its matrices to 8 bits, a quarter of the size.
"""

import shutil
from pathlib import Path

import dragoman
from dragoman.store.description import CARD

SHIPPED = Path(__file__).parents[1] / "src" / "dragoman" / "inference" / "phrasebook"
STEPS = 5_000
README = """# Phrasebook, English to Italian

The model that `dragoman demo` translates with before it trains one. `tools/make_model.py` made it, in {steps:,} steps,
from the training set of the phrasebook that ships in this package. It knows the words of that phrasebook and little
else. License: MIT, as the rest of the package.
"""

if __name__ == "__main__":
    overrides = [f"train.steps={STEPS}"]
    run = dragoman.train("phrasebook", overrides=overrides, name="shipped").folder
    made = run / "shipped"
    shutil.rmtree(made, ignore_errors=True)
    result = dragoman.quantize(run, made)
    (made / CARD).write_text(README.format(steps=STEPS), encoding="utf-8")
    shutil.rmtree(SHIPPED, ignore_errors=True)
    shutil.copytree(made, SHIPPED)
    print(f"{SHIPPED}: {result.bytes_after:,} bytes of weights; before them {result.bytes_before:,}")
