"""The gate of a refactoring: which programs and which bytes are what they were.

  python -m tests.gate                  compares with tests/gate/hashes.json
  python -m tests.gate --write          writes it anew
  python -m tests.gate --programs       only the programs (a minute); --folders likewise
  python -m tests.gate fedsva dpa       only the cases whose names hold these words
  python -m tests.gate fedsva --text=DIR   also writes the programs' texts, to compare

A program is the lowered text (StableHLO) of the compiled rounds, without locations and
with functions numbered as they come: moving or renaming Python changes nothing. A
folder is every file that a run leaves but its seconds, and its page made from them. The
bytes of a folder hold on one machine with one version of the libraries; the gate is no
test of the suite.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
HASHES = pathlib.Path(__file__).with_name("hashes.json")
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0 "
    "--xla_cpu_use_fusion_emitters=false"
)
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(ROOT / ".cache" / "compiled")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from . import cases  # noqa: E402 (after the flags)


def numbered(text: str) -> str:
    """A module's text with its functions numbered and without the arguments' names."""
    text = re.sub(r'\s*\{?jax\.(result_info|arg_info) = "[^"]*"\}?', "", text)
    names: dict[str, str] = {}
    return re.sub(
        r"@([\w.$-]+)", lambda m: names.setdefault(m[1], f"@f{len(names)}"), text
    )


def short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def program(name: str, texts: pathlib.Path | None) -> str:
    text = numbered(cases.lowered(name))
    if texts is not None:
        texts.mkdir(parents=True, exist_ok=True)
        (texts / f"{name}.mlir").write_text(text)
    return short(text.encode())


def folder(name: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as place:
        path = cases.finished(name, pathlib.Path(place) / "run")
        return {
            str(file.relative_to(path)): short(file.read_bytes())
            for file in sorted(path.rglob("*"))
            if file.is_file()
        }


def changed(before: object, after: object) -> str | None:
    """What differs between two hashes of a case; None where nothing does."""
    if before == after:
        return None
    if before is None:
        return "is new"
    if isinstance(after, str) and ":" in after:
        return after  # an error
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted(before.keys() | after.keys())
        return ", ".join(n for n in names if before.get(n) != after.get(n))
    return "another program"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gate")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--folders", action="store_true")
    parser.add_argument("--text", type=pathlib.Path)
    asked = parser.parse_args()
    known = json.loads(HASHES.read_text()) if HASHES.exists() else {}
    kinds = {"programs": cases.PROGRAMS, "folders": cases.FOLDERS}
    chosen = [kind for kind in kinds if getattr(asked, kind)] or list(kinds)
    differ = 0
    for kind in chosen:
        stored = known.get(kind, {})
        words = asked.words or [""]
        names = [name for name in kinds[kind] if any(word in name for word in words)]
        found: dict[str, object] = {}
        for name in names:
            try:
                found[name] = (
                    program(name, asked.text) if kind == "programs" else folder(name)
                )
            except Exception as error:  # the gate goes on: it tells of every case
                found[name] = f"{type(error).__name__}: {error}"[:200]
            if what := changed(stored.get(name), found[name]):
                print(f"{kind}: {name}: {what}", flush=True)
        same = sum(found[name] == stored.get(name) for name in names)
        print(f"{kind}: {same} of {len(names)} the same", flush=True)
        differ += len(names) - same
        known[kind] = stored | found if asked.words else found
    if asked.write:
        HASHES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    raise SystemExit(bool(differ) and not asked.write)


if __name__ == "__main__":
    main()
