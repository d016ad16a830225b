"""Refusals: requests that a client does not answer."""

import contextlib
import logging
from collections.abc import Iterator

_log = logging.getLogger(__name__)


class Refused(ValueError):
    """A request that a client does not answer, in one sentence.

    The sentence goes to the server: it never says anything that the client's data
    decide, and neither does whether there is one.
    """


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Whatever fails in the block is Refused, and logged on the client's machine.

    Raises:
      Refused: the block's own, or one that hides what failed, since the words of
        another error may tell of the data.
    """
    try:
        yield
    except Refused as refusal:
        _log.warning("refused: %s", refusal)
        raise
    except (Exception, SystemExit):
        _log.exception("no upload")
        raise Refused("the client failed; its own log says why") from None
