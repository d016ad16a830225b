"""Features of images that are computed once: scattering coefficients.

Around the core, which loads from here what `--model` names: scatter_linear and
scatter_channels_linear are trained on them.
"""
