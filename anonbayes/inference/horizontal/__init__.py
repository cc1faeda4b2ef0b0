"""Inference for horizontal tables: generalized cells, reports of channels, latent secrets."""
