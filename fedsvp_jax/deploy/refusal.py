"""Why a client does not answer."""


class Refused(ValueError):
    """A request that a client does not answer, in one sentence; its state is as before.

    The sentence goes to the server: it never says anything that the client's data
    decide.
    """
