"""The small from-scratch policy as engineer: its language, the pairs that teach it, and an analysis of its designs.

A real language model needs none of this: it reads a prompt in prose and answers in JSON.
"""
