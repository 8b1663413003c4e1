"""Notebooks become pages: cells in their order, each with what it showed, whatever that was."""

import base64

import nbformat
import pytest

pytest.importorskip("myst_parser")

from notebook_pages import as_markdown, executed

PICTURE = base64.b64encode(b"\x89PNG picture").decode()


def notebook(*outputs, source="print('`' * 4)"):
    cells = [
        nbformat.v4.new_markdown_cell("# Title\n\nWords."),
        nbformat.v4.new_code_cell(source, outputs=list(outputs)),
    ]
    return nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_markdown_cell("More.")])


def test_a_page_has_title_words_code_and_outputs_in_their_order():
    shown = [
        nbformat.v4.new_output("stream", name="stdout", text="one\n"),
        nbformat.v4.new_output("stream", name="stdout", text="two\n"),
        nbformat.v4.new_output("display_data", data={"text/html": "<b>bold</b>\n\n\n<i>x</i>", "text/plain": "plain"}),
        nbformat.v4.new_output("display_data", data={"image/png": PICTURE, "text/plain": '<Figure "1">'}),
        nbformat.v4.new_output("execute_result", data={"text/plain": "42"}),
    ]
    page = as_markdown(notebook(*shown), "mine.ipynb")
    wanted = [
        "# Title\n",
        "{download}`Download this notebook <mine.ipynb>`",
        "\nWords.\n",
        "```python\n",
        "```{code-block} text\n:class: cell-output\n\none\ntwo\n```",
        '```{raw} html\n<div class="cell-output"><b>bold</b>\n<i>x</i></div>\n```',
        f'alt="&lt;Figure &quot;1&quot;&gt;" src="data:image/png;base64,{PICTURE}">',
        "\n42\n",
        "\nMore.\n",
    ]
    places = [page.index(one) for one in wanted]
    assert places == sorted(places)
    assert "plain" not in page


def test_a_fence_within_does_not_end_a_block():
    page = as_markdown(notebook(source='text = "```"'), "mine.ipynb")
    assert '````python\ntext = "```"\n````' in page


def test_a_notebook_is_executed_once_for_each_state(tmp_path, monkeypatch):
    monkeypatch.setattr("notebook_pages.KEPT", tmp_path)
    source = nbformat.writes(notebook(source="import time; print(time.time())"))
    first = executed(source, "mine.ipynb").cells[1].outputs[0].text
    assert executed(source, "mine.ipynb").cells[1].outputs[0].text == first
    (kept,) = tmp_path.glob("*.ipynb")
    other = nbformat.writes(notebook(source="import time; print(-time.time())"))
    assert executed(other, "mine.ipynb").cells[1].outputs[0].text.startswith("-")
    assert not kept.exists()
