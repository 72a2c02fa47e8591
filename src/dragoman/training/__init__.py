"""From batches to trained weights: the one loop and its parts.

Start with `loop.py`, which reads in one sitting. This room knows nothing of text or decoding: a task passes in how to
validate.
"""

from typing import TYPE_CHECKING

from dragoman import lazy_names

if TYPE_CHECKING:
    from dragoman.training.loop import Every as Every
    from dragoman.training.loop import run_steps as run_steps
    from dragoman.training.loss import label_smoothed_loss as label_smoothed_loss
    from dragoman.training.schedule import learning_rate as learning_rate
    from dragoman.training.settings import TrainSettings as TrainSettings
    from dragoman.training.state import TrainState as TrainState
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "loop": ["Every", "run_steps"],
            "loss": ["label_smoothed_loss"],
            "schedule": ["learning_rate"],
            "settings": ["TrainSettings"],
            "state": ["TrainState"],
        },
    )
