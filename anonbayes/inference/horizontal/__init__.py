"""Inference for horizontal tables: generalized cells, channels, latent sensitive values."""
