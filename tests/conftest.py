"""Strict test session: 4 virtual CPU devices, strict promotion, a cache of programs."""

import os
import pathlib

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
)

import jax

# Compiling is most of the suite's time. The workers share what they compiled, and the
# next session finds it; `make clean` removes it.
COMPILED = pathlib.Path(__file__).parents[1] / ".cache" / "compiled"
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
