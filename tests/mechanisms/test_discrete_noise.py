"""--noise_sampler=discrete: the noise as before, the claim by zCDP, the refusals."""

import jax.numpy as jnp
import numpy as np
import pytest
from ledgers import Book, record
from published import make, upload

from fedsvp_jax.accounting import claims, composed_epsilon
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon

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
def test_the_noise_is_as_strong_as_gaussian_and_the_claim_is_by_zcdp(name, changes):
    told = {key: value for key, value in changes.items() if key != "noise_bits"}
    plain, grid = make(name, **told), make(name, noise_sampler="discrete", **changes)
    update = jnp.linspace(-0.1, 0.1, 400)
    sent, _, info = upload(grid, update)
    _, _, before = upload(plain, update)
    for field in ("noise_multiplier", "noise_std", "sensitivity", "delta"):
        assert getattr(info, field) == getattr(before, field)
    assert np.std(sent["w"]) == pytest.approx(
        float(np.hypot(info.noise_std, np.std(update))), rel=0.15
    )
    claim = grid.basis
    assert claim.concentrated and claim.proved and not plain.basis.concentrated
    assert "exact discrete Gaussian" in claim.assumptions
    np.testing.assert_array_equal(grid.least_multiplier, plain.least_multiplier)
    if not claim.central:
        claimed = concentrated_epsilon(info.noise_multiplier, 1e-5)
        np.testing.assert_allclose(info.epsilon, claimed, rtol=1e-6)
        assert float(np.max(grid.most_epsilon)) >= float(info.epsilon) * (1 - 1e-6)


def test_the_account_counts_it_by_rdp_alone():
    mechanism = make("nbafl", noise_sampler="discrete", **CLIPPED)
    book = Book(4, mechanism, who={"equal_weights": True}, client_swap=1.0)
    z = float(mechanism.least_multiplier)
    for _ in range(2):
        record(book, [0, 1], multiplier=z, weights=0.5)
    by_rdp = composed_epsilon("rdp", 2 / z**2, 1e-5)
    for method in ("rdp", "pld", "gdp"):
        assert book.epsilon_spent(method, 1e-5) == pytest.approx(by_rdp)
    assert book.again().epsilon_spent("pld", 1e-5) == pytest.approx(by_rdp)
    # Its last line had RDP's ε under the name of PLD, and proved.
    for row in (claims.row(book.account, last=True), claims.planned_row(book.account)):
        assert {*row["epsilon_spent"]} == {*row["status"]} == {"basic", "rdp"}
    rows = claims.table(book.account)
    assert {row.method for row in rows} == {"basic", "rdp"}
    assert all(row.proved for row in rows if row.method == "rdp")
