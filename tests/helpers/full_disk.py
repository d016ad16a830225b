"""A site that answers on a small disk of which so many pages are free, from none on.

    mount -t tmpfs -o size=256k none FOLDER; python full_disk.py FOLDER ELSEWHERE

Its witness is on the same disk, and then elsewhere. Prints a JSON object: the sentences
that came back with how often, and how many uploads left and were counted.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

from deployed import UPDATE_CLIP, model, policy, trained

from fedsvp_jax.deploy import Site, Trained, answer

PAGE = 4096
FREE = [0] * 8 + [1] * 8 + [2] * 8 + [16] * 3  # pages


def tried(folder: Path, witness: Path) -> tuple[Counter[str], int, int]:
    """(the sentences, the uploads that left, those that were counted)."""
    site = Site(folder / "log", policy(**UPDATE_CLIP, num_rounds=50), witness=witness)
    site.begin(30)
    sentences, left, spare = Counter[str](), 0, folder / "spare"
    for pages in FREE:
        before, last = site.path.read_bytes(), site.read().last_round
        free = os.statvfs(folder).f_bavail * PAGE
        spare.write_bytes(bytes(free - pages * PAGE))
        try:
            answer(site, model(), lambda: Trained(trained(model())), round_num=last + 1)
        except OSError as error:
            sentences[str(error).replace(f"{folder}/", "")] += 1
        else:
            left += 1
        spare.unlink()
        counted = int(site.read().sums["uploads"][0])  # which verifies the log
        assert site.path.read_bytes().startswith(before) and left <= counted
    return sentences, left, counted


def main(disk: Path, elsewhere: Path) -> None:
    assert os.statvfs(disk).f_blocks * PAGE < 2**20
    both = []
    for name, witness in (("one", disk / "seen"), ("two", elsewhere)):
        (disk / name).mkdir()
        both.append(tried(disk / name, witness))
    sentences, left, counted = zip(*both, strict=True)
    told = {"left": sum(left), "counted": sum(counted)}
    print(json.dumps(told | {"came_back": sentences[0] + sentences[1]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
