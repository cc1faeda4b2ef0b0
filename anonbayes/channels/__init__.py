"""Channels: the likelihood of a released value given the true one."""
