"""The notebooks' view of the pipeline: where to write, where earlier results are.

A notebook sees five functions: `root` finds the repository, `start` gives the folder to write into, `require` checks an
input and says which notebook makes it, `student` gives the policy that a training seed begins with, `cells` gives the
folder of the records of finished cells. Behind them: the validated parameters (`params`, `schema`), notebooks as code
and as results (`notebooks`), the stage that runs one (`stages`), and the published files (`publish`). `python -m
mapflake.nb --help` lists the commands of dvc.yaml and the Makefile. Nothing here computes a result.
"""

from mapflake.nb.folders import cells, require, root, start, student

__all__ = ["cells", "require", "root", "start", "student"]
