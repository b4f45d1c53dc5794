"""Floor 4: what notebooks and DVC stages share.

A notebook sees three functions: `root` finds the repository, `start` gives the folder to write into, `require`
checks an input and says which notebook makes it. Behind them: the validated parameters (`sections`), what a notebook
may contain and how an executed one is made comparable (`notebooks`), the runner of a stage (`runner`), and the
published files (`publish`). `python -m mapflake.nb --help` lists the commands that dvc.yaml and the Makefile use.

Not covered: anything that computes a result. A change here never retrains a policy, so nothing here may change one.
"""

from mapflake.nb.folders import require, root, start

__all__ = ["require", "root", "start"]
