"""What a small policy is taught before RL: demonstrations of designs, and the model that has seen them.

`demonstrations` writes pairs of prompt and reply, in closed words or in JSON; `base` makes the model from which all
arms start, from scratch or pretrained. A large pretrained model that is used unchanged is shown none of this.
"""
