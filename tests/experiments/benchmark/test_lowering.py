"""Every mechanism's round as accelerators would get it, lowered on a CPU."""

import communication
import jax
import jax.export
import jax.numpy as jnp
import lowering
import pytest
from small_runs import small, small_trainer

from fedsvp_jax import mechanisms, models
from fedsvp_jax.devices.target import named
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.models.kernels import Kernels
from fedsvp_jax.structs import Array, Params

TWO_DEVICES = Placement(num_devices=2)
FAST = ("dp_fedavg", "fedsva")  # a step at the server and state; coalitions


@pytest.mark.parametrize(
    "mechanism",
    [
        name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
        for name in mechanisms.mechanism_names()
    ],
)
def test_the_round_is_lowered_for_accelerators(mechanism: str) -> None:
    """In single precision, without the host, and with one gather per array and turn."""
    config = small(mechanism=mechanism, cohort_size=4, client_chunk_size=2)
    trainer, other = (
        small_trainer(config, placement=TWO_DEVICES, target=named(platform))
        for platform in lowering.PLATFORMS
    )
    program = lowering.lowered(trainer)
    # One turn for the lanes, and one for the two test batches. Up to two numbers per
    # client more are gathered that nobody reads (the ids, say); XLA removes them.
    more = program.gathered_bytes - communication.gathered(trainer).total
    assert 0 <= more <= 2 * 4 * config.cohort_size
    assert program._replace(gathers=0, gathered_bytes=0) == lowering.count("")
    assert lowering.lowered(other) == program


@pytest.mark.parametrize("name", ["small_cnn", "leaf_cnn", "resnet18_gn"])
def test_a_cpus_clients_side_by_side_have_no_grouped_convolution(name: str) -> None:
    def gradients(kernels: Kernels) -> lowering.Lowered:
        model = models.make_model(name, num_classes=10, kernels=kernels)
        image = jax.ShapeDtypeStruct((2, 8, 8, 1), jnp.float32)
        params, stats = jax.eval_shape(model.init, jax.random.key(0), image)

        def loss(params: Params, x: Array) -> Array:
            return model.apply(params, stats, x, train=True, key=None)[0].sum()

        clients = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((3, *leaf.shape), leaf.dtype),
            (params, image),
        )
        both = jax.jit(jax.vmap(jax.grad(loss)))
        exported = jax.export.export(both, platforms=["cuda"])(*clients)
        return lowering.count(exported.mlir_module())

    assert gradients("cpu") == lowering.count("")
    if name == "small_cnn":
        assert gradients("tpu").grouped_convolutions


def test_what_must_not_be_in_a_round_is_seen() -> None:
    def asks_the_host(x: Array) -> Array:
        return jax.pure_callback(lambda x: x, x, x)

    zeros = jnp.zeros(3)
    assert lowering.count(jax.jit(asks_the_host).lower(zeros).as_text()).host_calls == 1
    with jax.enable_x64(True):
        double = jax.jit(jnp.sin).lower(jnp.zeros(3, "float64")).as_text()
    assert lowering.count(double).float64
    assert lowering.count('"stablehlo.all_reduce"(%1)').other_collectives == 1
