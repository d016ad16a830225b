"""The clipping rules: each value of `--clipping` with its fixed properties.

Bound, relation, grid and assumptions follow from the settings; they are in
`mechanisms.clipping.Clipping`.
"""

from typing import NamedTuple

from .files import toml_beside


class Clip(NamedTuple):
    """A clipping rule.

    Attributes:
      name: the setting's value.
      words: what C bounds, for --help.
      in_ball: an upload ends in a ball of radius C, also one that is not finite.
      of_weights: that ball is of the uploaded weights, so the clip reads the model.
      in_steps: every example's gradient is clipped, and the noise is in the steps.
      is_query: the noise is on the answer to a private query, not on the update.
      bound_unproved: the bound was published, not proved.
      either_relation: its bound follows `--relation`, which it reads.
    """

    name: str
    words: str
    in_ball: bool = False
    of_weights: bool = False
    in_steps: bool = False
    is_query: bool = False
    bound_unproved: bool = False
    either_relation: bool = False


CLIPS = {
    name: Clip(name, **fields)
    for name, fields in toml_beside(__file__, "clips.toml").items()
}
