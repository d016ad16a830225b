"""Begins the logs of the three clients, once in their lives.

    cd examples/flower; python -m digits.begin --state=FOLDER [--method=attribute]

In a federation every site does this for itself, on its own machine.
"""

import argparse
import pathlib

from digits.client import client_of
from digits.federation import MIN_NUM_EXAMPLES


def main() -> None:
    """Writes client-0.json, client-1.json and client-2.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state", type=pathlib.Path, required=True)
    parser.add_argument("--method", choices=MIN_NUM_EXAMPLES, default="fedsva")
    told = parser.parse_args()
    for number in range(3):
        client_of(number, told.method, told.state).begin()


if __name__ == "__main__":
    main()
