"""Looks at every pin: `make audit`, in an environment of its own.

    python requirements/audit.py FOLDER

Of each file of pins: every one has a version and a hash, and is to be had as a wheel
(uv asks the registry); no weakness of it is known (pip-audit asks a database). FOLDER
gets an SBOM of each, NAME.cdx.json (CycloneDX). Where the registry or the database is
not to be had, a sentence says which pins were not looked at. Exit status 1: a pin is
without a hash or a wheel, or has a known weakness.
"""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(sys.executable).parent
FROM_SOURCE = "promise"  # published as source alone; the pinned setuptools builds it


def unhashed(text: str) -> list[str]:
    """The requirements of a file of pins that lack a version or a SHA-256."""
    whole = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    pin = re.compile(r"[\w.-]+==[\w.]+ (;[^#]*?)?\s*--hash=sha256:[0-9a-f]{64}.*")
    return [line for line in whole.splitlines() if line and not pin.fullmatch(line)]


def run(*words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    """A tool of this environment, to its end."""
    line = [str(BIN / words[0]), *map(str, words[1:])]
    return subprocess.run(line, capture_output=True, text=True)


def without_wheel(pins: pathlib.Path) -> str:
    """Why the registry has no wheel of a pin; "" where it has."""
    wheels = ("--only-binary=:all:", f"--no-binary={FROM_SOURCE}")
    found = run("uv", "pip", "compile", "-q", "--no-deps", "--universal",
                "--python-version=3.11", *wheels, pins)  # fmt: skip
    return "" if found.returncode == 0 else " ".join(found.stderr.split())


def weaknesses(pins: pathlib.Path) -> tuple[list[str], int, int]:
    """(pins with a known weakness, number of pins looked up, number of pins)."""
    found = run("pip-audit", "--no-deps", "--disable-pip", "--progress-spinner=off",
                "--format=json", "-r", pins)  # fmt: skip
    if not found.stdout.strip():
        return [], 0, len(re.findall("(?m)^[^#\n]+==", pins.read_text()))
    asked = json.loads(found.stdout)["dependencies"]
    known = [pin for pin in asked if "skip_reason" not in pin]
    weak = [
        f"{pin['name']}=={pin['version']}: {weakness['id']}, mended in "
        f"{', '.join(weakness['fix_versions']) or 'no version'}"
        for pin in known
        for weakness in pin["vulns"]
    ]
    return weak, len(known), len(asked)


def main() -> int:
    """Looks at all files of pins, and says what was found of each."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    _, known, _ = weaknesses(HERE / "build.txt")  # the shortest file
    if not known:
        print("the database of known weaknesses is not to be had: no pin was compared")
    wrong = False
    for pins in sorted(HERE.glob("*.txt")):
        bill = folder / f"{pins.stem}.cdx.json"
        made = run("cyclonedx-py", "requirements", pins, "--output-file", bill)
        if made.returncode:
            raise SystemExit(f"{bill} cannot be written: {made.stderr}")
        number = len(json.loads(bill.read_text())["components"])
        print(f"{pins.name}: {number} pins, SBOM in {bill}")
        weak, looked_up, asked = weaknesses(pins) if known else ([], 0, 0)
        bad = [f"no version or hash: {pin[:60]}" for pin in unhashed(pins.read_text())]
        no_wheel = without_wheel(pins)
        if "no usable wheels" in no_wheel:
            bad.append(no_wheel[:200])
        elif no_wheel:
            print(f"  whether all are wheels is not known: {no_wheel[:200]}")
        if looked_up < asked:
            print(f"  the database does not know {asked - looked_up} of {asked} pins")
        for problem in bad + weak:
            print(f"  WRONG: {problem}")
        wrong |= bool(bad or weak)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
