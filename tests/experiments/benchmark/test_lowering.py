"""Every mechanism's round as CUDA and TPU would get it, lowered on a CPU.

JAX lowers a program for a device that is not there. It does not compile it, so nothing
here says how fast the device is.
"""

import dataclasses
import math
import re
from collections import Counter

import jax
import jax.export
import jax.numpy as jnp
import pytest
from small_runs import small, small_trainer

from fedsvp_jax import mechanisms, models
from fedsvp_jax.core.structs import Array, Params
from fedsvp_jax.devices.target import named_target
from fedsvp_jax.models.kernels import Kernels
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

PLATFORMS = ("cuda", "tpu")
FAST = ("dp_fedavg", "fedsva")  # a step at the server and state; coalitions
GATHER = re.compile(r"\"stablehlo\.all_gather\".*-> tensor<([\dx]+)x(\w+)>")
BYTES = {"i1": 1, "i32": 4, "ui32": 4, "f32": 4}
# What no round holds: sums over devices, float64, the host, grouped convolutions.
UNWANTED = {
    "collective": r"stablehlo\.(all_reduce|all_to_all|collective_\w+|reduce_scatter)",
    "float64": r"tensor<(?:[\dx?]*x)?(?:f64|complex<)",
    "host": r"stablehlo\.(?:infeed|outfeed|send|recv)\b|custom_call @\w*callback",
    "grouped convolution": r"(?:feature|batch)_group_count = (?!1\b)\d+",
}


def unwanted(program: str) -> Counter[str]:
    """How often each of these stands in the text of a program in StableHLO."""
    found = {name: len(re.findall(what, program)) for name, what in UNWANTED.items()}
    return +Counter(found)


def gathered(trainer: Trainer) -> int:
    """Bytes that every device gathers in a round, by the formula.

        4 R(K) (P + S) + R(K) record + 4 R(batches) (G + 1),  R(n) = D c ceil(n/(c D))

    D devices, chunks of c (1 for the test batches), P parameters, S statistics, G
    groups of test examples: the classes, times the attributes where the test set tells
    them. A record is a client's metrics and state, without its id.
    """
    program, devices = trainer.program, trainer.placement.num_devices
    plan, data = program.plan, program.data

    def rows(lanes: int, chunk: int) -> int:
        return devices * chunk * math.ceil(lanes / (chunk * devices))

    def size(tree: object, axes: int) -> int:
        leaves = jax.tree.leaves(tree)
        return sum(math.prod(x.shape[axes:]) * x.dtype.itemsize for x in leaves)

    state, metrics = trainer.lower().out_info
    clients = dataclasses.replace(metrics.shapes.clients, client_id=None)
    uploads = size((state.params, state.stats), 1) + size(clients, 1)
    uploads += sum(x.dtype.itemsize for x in jax.tree.leaves(state.mechanism.clients))
    batches = math.ceil(len(data.test.labels) / plan.test_batch_size)
    groups = data.num_classes * max(plan.num_tested_attributes, 1)
    lanes = rows(plan.cohort_size, plan.client_chunk_size)
    return lanes * uploads + rows(batches, 1) * 4 * (groups + 1)


@pytest.mark.parametrize(
    "mechanism",
    [
        name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
        for name in mechanisms.mechanism_names()
    ],
)
def test_the_round_is_lowered_for_accelerators(mechanism: str) -> None:
    """In single precision, without the host, and it gathers what the formula says."""
    config = small(mechanism=mechanism, cohort_size=4, client_chunk_size=2)
    two = Placement(num_devices=2)
    trainers = [
        small_trainer(config, placement=two, target=named_target(platform))
        for platform in PLATFORMS
    ]
    texts = [trainer.export().mlir_module() for trainer in trainers]
    assert not any(map(unwanted, texts))
    gathers = [GATHER.findall(text) for text in texts]
    assert gathers[0] == gathers[1]
    sent = sum(
        BYTES[kind] * math.prod(map(int, shape.split("x")))
        for shape, kind in gathers[0]
    )
    # One turn for the lanes, and one for the two test batches. Up to two numbers per
    # client more are gathered that nobody reads (the ids, say); XLA removes them.
    assert 0 <= sent - gathered(trainers[0]) <= 2 * 4 * config.cohort_size


def test_one_device_gathers_nothing() -> None:
    text = small_trainer(small(), target=named_target("cuda")).export().mlir_module()
    assert not GATHER.findall(text) and not unwanted(text)


@pytest.mark.parametrize("name", ["small_cnn", "leaf_cnn", "resnet18_gn"])
def test_a_cpus_clients_side_by_side_have_no_grouped_convolution(name: str) -> None:
    def gradients(kernels: Kernels) -> Counter[str]:
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
        return unwanted(exported.mlir_module())

    assert not gradients("cpu")
    if name == "small_cnn":
        assert gradients("tpu")["grouped convolution"]


def test_what_must_not_be_in_a_round_is_seen() -> None:
    def asks_the_host(x: Array) -> Array:
        return jax.pure_callback(lambda x: x, x, x)

    asking = jax.jit(asks_the_host).lower(jnp.zeros(3)).as_text()
    assert unwanted(asking) == {"host": 1}
    with jax.enable_x64(True):
        double = jax.jit(jnp.sin).lower(jnp.zeros(3, "float64")).as_text()
    assert unwanted(double)["float64"]
    assert unwanted('"stablehlo.all_reduce"(%1)') == {"collective": 1}
