"""What holds for every test: no time limits, for the first example of a test may load kernels."""

from hypothesis import settings

settings.register_profile("streammine", deadline=None)
settings.load_profile("streammine")
