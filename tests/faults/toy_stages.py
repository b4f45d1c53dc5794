"""The stages of the toy, and what runs one; imports nothing that takes time."""

STAGES = ("warm_start", "shared", "arm", "language_model", "two_ranks")  # what each writes, after those before


def run_toy(*arguments: object) -> None:
    """Runs `toy.run`, in a process that has imported it already."""
    import toy

    toy.run(*arguments)
