"""One small program per puzzle subtype, which the scripted policy sends to the sandbox as source.

A solver is a module that stands alone: it imports only the standard library, numpy and Pillow (what the sandbox's
Python has, and what our tests have), and defines

- `QUESTION`: a regular expression that recognises its question anywhere in the user's message, written as one string
  literal, because the policy reads it without importing the module;
- `solve(path: str, question: str) -> str`: the answer, from the pixels of the image at `path` and the question's text;
- `PICTURE = ""`, only where `solve` can show what it found: when set to a path, `solve` saves a PNG there. The policy
  sets it, and then looks at the picture with the harness's `read` tool before it answers.

A solver sees neither the generator nor the gold. It may be wrong; then the policy earns that.
"""
