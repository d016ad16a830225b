"""One self-contained HTML page: styles, scripts and data inside, nothing fetched.

What a page says stands in its template of `report/templates`, which gets plain records.
The page's Content-Security-Policy forbids every connection, so that it cannot
load or send anything even where a browser is online.
"""

import base64
import dataclasses
import functools
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import claims, tradeoff
from fedsvp_jax.core import extras
from fedsvp_jax.core.files import Record, plain, replace_file
from fedsvp_jax.data.dataset import MISFIT_SHARES
from fedsvp_jax.data.tables import schema
from fedsvp_jax.mechanisms import shared_noise
from fedsvp_jax.run import published_scores

from . import guarantees, labels, provenance, style, tables, text_table
from .plots import Plot

_ASKED = [
    claims,
    guarantees,
    labels,
    mechanisms,
    provenance,
    published_scores,
    schema,
    tables,
    text_table,
    tradeoff,
]


@functools.cache
def templates() -> Any:
    """The environment of report/templates; HTML escapes whatever it is handed.

    Every function of the modules `_ASKED` is a filter.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fedsvp_jax.report"),
        extensions=["jinja2.ext.do"],
        autoescape=jinja2.select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    kwargs = {"separators": (",", ":"), "allow_nan": False}
    environment.policies["json.dumps_kwargs"] = kwargs
    environment.globals |= {
        "asset": style.asset,
        "misfit_shares": MISFIT_SHARES,
        "plotly_script": plotly_script,
    }
    for module in _ASKED:
        environment.filters |= vars(module)
    environment.filters |= {
        "exp": math.exp,
        "least_opened": shared_noise.least_opened,
        "log": math.log,
        "rounded": _rounded,
        "mean": lambda rows, name: tables.mean_std(tables.present(rows, name))[0],
    }
    return environment


def write(
    path: Path,
    template: str,
    *,
    plots: Sequence[Plot] = (),
    data: Mapping[str, Any] = MappingProxyType({}),
    **values: Any,
) -> Path:
    """Writes the whole page, or nothing; its folder is made where there is none.

    Args:
      path: where to write; it is returned.
      template: of report/templates, which extends page.html.
      plots: what common.js draws; the template says where.
      data: what the scripts read besides: `tables` by the id under which they are
        downloaded, and what the page's own scripts ask for.
      values: what the template reads.

    Raises:
      ImportError: plotly is not installed, where there is a plot.
    """
    if plots:
        data = {"plots": [*map(dataclasses.asdict, plots)], **data}
    text = (
        templates()
        .get_template(template)
        .render(
            values,
            sections=[],
            plots=plots,
            data=_rounded(dict(data)),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode(), b"\n")
    return path


def plotly_script() -> str:
    """plotly.js, from the Python package that carries it, by zlib in base64.

    Raises:
      ImportError: plotly is not installed.
    """
    with extras.needed("report", "a report page"):
        from plotly.offline import get_plotlyjs
    return base64.b64encode(zlib.compress(get_plotlyjs().encode())).decode()


def _rounded(data: Record) -> Any:
    """Floats rounded to six significant digits, which keeps pages small.

    JSON has no word for NaN and infinities, which become null.
    """
    text = json.dumps(plain(data))
    return json.loads(text, parse_float=lambda digits: float(f"{float(digits):.6g}"))
