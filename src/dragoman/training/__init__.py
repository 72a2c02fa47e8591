"""From batches to trained weights: the one loop, and its parts.

Start with `loop.py`, which is read in one sitting. Knows nothing of text or of decoding: what a validation measures is
handed in.
"""

from dragoman.training.loop import Chore, Every, run_steps
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.schedule import learning_rate
from dragoman.training.settings import TrainSettings
from dragoman.training.state import TrainState

__all__ = ["Chore", "Every", "TrainSettings", "TrainState", "label_smoothed_loss", "learning_rate", "run_steps"]
