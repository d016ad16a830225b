"""Features of images that are computed once, and the Vision Transformer.

Around the core, which loads from here what `--model` names: vit, and the scattering
features that scatter_linear and scatter_channels_linear are trained on.
"""
