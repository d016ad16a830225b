"""Flag-driven experiments; flags end here, the library takes dataclasses."""
