from hypothesis import settings

# The same examples at every run, and no clock: a slow machine must not fail a test.
settings.register_profile("mapflake", derandomize=True, deadline=None)
settings.load_profile("mapflake")
