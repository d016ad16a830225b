"""Tab completion of `fedsvp` for bash: subcommands, flags, files.

  source <(fedsvp completion bash)

The flags of a subcommand are asked for at the first tab, and kept in the shell.
"""

import importlib
import importlib.util

from absl import flags

from . import manual, subcommands

_SCRIPT = """\
_fedsvp() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} kept=_fedsvp_flags_${{COMP_WORDS[1]}}
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{names}" -- "$word"))
  elif [ "${{word:0:1}}" = - ]; then
    [ -n "${{!kept:-}}" ] ||
      declare -g "$kept=$(fedsvp completion "${{COMP_WORDS[1]}}" 2> /dev/null)"
    COMPREPLY=($(compgen -W "${{!kept}}" -- "$word"))
    compopt -o nospace
  fi
}}
complete -o default -F _fedsvp fedsvp
"""


def script() -> str:
    """What bash sources."""
    return _SCRIPT.format(names=" ".join([*subcommands.MODULES, "presets"]))


def flags_of(name: str) -> str:
    """The flags of a subcommand, `--name=` in a line each."""
    module = subcommands.module(name)
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.submodule_search_locations:
        module += ".__main__"
    importlib.import_module(module)
    of_module = flags.FLAGS.flags_by_module_dict()
    ours = (f"{__package__}.", manual.SETTINGS)
    named = {
        flag.name
        for where, found in of_module.items()
        if where.startswith(ours)
        for flag in found
    }
    return "\n".join(f"--{one}=" for one in sorted(named))
