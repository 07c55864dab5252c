"""Examples at the end of docstrings become code blocks on the site."""

import griffe


class DocstringExamples(griffe.Extension):
    """Puts a fence around lines that begin with `>>>`, and their output."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring is None or ">>>" not in obj.docstring.value:
            return
        text, example = obj.docstring.value.split(">>>", 1)
        obj.docstring.value = f"{text}```pycon\n>>>{example.rstrip()}\n```\n"
