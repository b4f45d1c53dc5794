"""What a figure says."""

import io

from matplotlib.figure import Figure


def texts(figure: Figure) -> str:
    """Returns all that is written in a figure."""
    figure.savefig(io.BytesIO())
    return "\n".join(t.get_text() for t in figure.findobj(lambda artist: hasattr(artist, "get_text")))
