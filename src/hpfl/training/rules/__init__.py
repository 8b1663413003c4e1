"""Combine rules that keep their aim though a few of the updates are anything at all; one file each, with its paper."""
