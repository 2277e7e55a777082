"""An HTTP endpoint in the form that OpenAI's clients expect, on loopback, behind the same gate."""
