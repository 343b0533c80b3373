"""Stand-ins for the two images that an OpenSandbox server puts beside and into each sandbox.

The real ones come from a container registry, which tests do not ask. These are our own, written against the published
API: they prove the real server, the real SDK and our provider, and say nothing about the real daemon or sidecar.
"""
