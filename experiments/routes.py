"""What `--preset=proved` sets: routes that leave a useful model under a proved ε.

They are rows *attribute records* of docs/results/utility.md, whose page says which code
ran all routes.
"""

from typing import Any

_PROVED = {
    "mechanism": "nbafl",
    "calibration": "analytic",
    "delta": 1e-5,
    "total_accounting": "pld",
    "solve": "noise",
    "sensitivity": "attribute_records",
    "partition": "iid",  # each record at one client
    "eval_every": 4,
    "private_weight": 0.6,
    "private_from": 10,
}
_ROUTES: dict[str, dict[str, Any]] = {
    "mnist": {
        "model": "mlp",
        "num_rounds": 60,
        "max_uploads": 6,
        "private_clip": 0.3,
        "private_margin": 3.0,
    },
    "femnist": {
        "model": "small_cnn",
        "learning_rate": 0.2,
        "num_rounds": 40,
        "max_uploads": 4,
        "private_clip": 0.1,
        "private_layers": "classes",
        "private_margin": 1.5,
    },
}
_NOT_USEFUL = {
    "adult": "training without any private record is as accurate there, and needs no ε",
}


def proved_settings(dataset: str) -> dict[str, Any]:
    """What `--preset=proved` sets for a data set, all but --total_epsilon.

    Raises:
      ValueError: no useful route was measured for it.
    """
    if dataset not in _ROUTES:
        why = _NOT_USEFUL.get(dataset, "no useful route was measured")
        raise ValueError(
            f"preset proved is for {' and '.join(_ROUTES)}, got {dataset}: {why}"
        )
    return {"dataset": dataset, **_PROVED, **_ROUTES[dataset]}
