"""What notebooks see of the pipeline: the folders of a run.

Behind it: the validated parameters (`params`, `schema`), notebooks as code and as results (`notebooks`), the stage that
runs one (`stages`), and the published files (`publish`). `python -m mapflake.nb --help` lists the commands of dvc.yaml
and the Makefile. Nothing here computes a result.
"""

from mapflake.nb.folders import cells, require, root, start, student

__all__ = ["cells", "require", "root", "start", "student"]
