"""Networks with published weights, read from files; nothing is fetched.

A laboratory around the core: for the influence study, reconstructions, and
`--model=lite0_linear`, which `federation.features` loads from here when a run asks.
"""

from fedsvp_jax.pretrained.hugging_face import load_hugging_face
from fedsvp_jax.pretrained.lite0 import load_lite0

__all__ = ["load_hugging_face", "load_lite0"]
