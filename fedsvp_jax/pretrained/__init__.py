"""Networks with published weights, read from files, and features of images.

Around the core, which loads from here what `--model` names: vit, and the features that
scatter_linear, scatter_channels_linear and lite0_linear are trained on. Nothing is
fetched.
"""

from fedsvp_jax.pretrained.hugging_face import load_hugging_face
from fedsvp_jax.pretrained.lite0 import load_lite0

__all__ = ["load_hugging_face", "load_lite0"]
