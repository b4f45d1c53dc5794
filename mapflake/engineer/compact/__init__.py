"""The language of small policies as engineers, the demonstrations that teach it, and the model before RL.

`words` is the closed vocabulary, which `actions` and `prompt` use for policies of the prompt format `compact`;
`demonstrations` writes pairs in it or in JSON; `base` makes the model from which all arms start, from scratch or
pretrained. A large pretrained model that is taken as it is reads prose, answers in JSON, and is shown none of this.
"""
