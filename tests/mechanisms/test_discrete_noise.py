"""--noise_sampler=discrete: noise and claim as before, the refusals."""

import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from ledgers import Book, record
from published import make, upload

from fedsvp_jax.accounting import claims

CLIPPED = {"clipping": "update_clip", "l2_norm_clip": 1.0, "delta": 1e-5}
SHARED = CLIPPED | {"noise_trust": "secure_aggregation", "colluders": 2}
QUERY = {"clipping": "attribute_records", "noise_bits": 24, "delta": 1e-5}
PROVED = [
    ("nbafl", CLIPPED),
    ("nbafl", SHARED | {"calibration": "analytic"}),
    ("nbafl", QUERY),
    ("gaussian", CLIPPED | {"relation": "add_remove"}),
    ("fedsva", CLIPPED | {"contribution_release": "worst_case"}),
    ("dp_fedavg", {"l2_norm_clip": 1.0}),
]


@pytest.mark.parametrize(("name", "changes"), PROVED)
def test_noise_and_claim_are_those_with_gaussian_noise(name, changes):
    told = {key: value for key, value in changes.items() if key != "noise_bits"}
    plain, grid = make(name, **told), make(name, noise_sampler="discrete", **changes)
    update = jnp.linspace(-0.1, 0.1, 400)
    sent, _, info = upload(grid, update)
    _, _, before = upload(plain, update)
    for field in ("noise_multiplier", "noise_std", "sensitivity", "epsilon", "delta"):
        assert getattr(info, field) == getattr(before, field)
    assert np.std(sent["w"]) == pytest.approx(
        float(np.hypot(info.noise_std, np.std(update))), rel=0.15
    )
    claim = grid.basis
    assert claim.discrete and claim.proved and not plain.basis.discrete
    assert "exact discrete Gaussian" in claim.assumptions
    for field in ("least_multiplier", "most_epsilon", "most_delta"):
        np.testing.assert_array_equal(getattr(grid, field), getattr(plain, field))


def test_the_account_counts_it_as_gaussian_noise():
    """RDP alone was proved once, with 7 % more noise at ε = 3."""
    mechanism = make("nbafl", noise_sampler="discrete", **CLIPPED)
    book = Book(4, mechanism, who={"equal_weights": True}, client_swap=1.0)
    z = float(mechanism.least_multiplier)
    for _ in range(2):
        record(book, [0, 1], multiplier=z, weights=0.5)
    exact = get_epsilon_gaussian(z / 2**0.5, 1e-5)
    for one in (book, book.again()):
        for method in ("pld", "gdp"):
            assert one.epsilon_spent(method, 1e-5) == pytest.approx(exact)
        assert one.epsilon_spent("rdp", 1e-5) > exact * 1.05
    for row in (claims.row(book.account, last=True), claims.planned_row(book.account)):
        assert {*row["epsilon_spent"]} == {*row["status"]} == {"basic", "rdp", "pld"}
    rows = claims.table(book.account)
    assert {row.method for row in rows} == {"basic", "rdp", "pld"}
    assert all(row.proved for row in rows if row.method != "basic")
