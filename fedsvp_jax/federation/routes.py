"""The proved routes of tables: what `train --goal` and `DPClassifier` both set."""

from fedsvp_jax.core.files import Record

PROMISE: Record = {
    "mechanism": "gaussian",
    "relation": "add_remove",
    "total_accounting": "pld",
    "solve": "noise",
    "num_attributes": 1,
    "num_hbc_clients": 0,
    "split": "by_position",
    "train_fraction": 1.0,  # nothing here validates
    "model": "logistic",
}
# DP-SGD, by which each row is hidden: one step of all rows a round.
ROWS: Record = {
    "clipping": "per_example",
    "batches": "poisson",
    "local_steps": 1,
    "separate_clips": True,
    "server_momentum": 0.9,
}
