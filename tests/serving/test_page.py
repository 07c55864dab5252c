"""The page, in a real browser."""

import pytest

from tests.serving.browser import CHROMIUM, open_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

TEXT = "the cat sat on the mat"
LINES = "document.querySelectorAll('#lines path').length > 0"
SHARES = (
    "[...document.querySelectorAll('#source button')]"
    ".map(b => b.style.getPropertyValue('--weight'))"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_page("about:blank", tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(server, browser):
    browser.resize()
    browser.open(f"http://{server.address}/")
    browser.wait("document.querySelector('#model').textContent")
    yield browser
    browser.run("localStorage.clear()")
    assert browser.complaints == []


def translated(page, text=TEXT):
    page.type("#text", text)
    page.wait("!document.querySelector('#answer').matches('.stale')")
    assert page.text("#translation") == text[::-1]
    page.wait(LINES)


def shares(page):
    return [float(share) for share in page.run(SHARES)]


def test_translates_as_you_type(page):
    assert page.text("#model") == "toy, version 7"
    assert page.run("document.querySelector('#attention').hidden")
    translated(page, "abc def")
    translated(page, "abc def g")
    page.type("#text", " ")
    page.wait("document.querySelector('#translation').innerText == ''")
    assert page.run("document.querySelector('#attention').hidden")


def test_only_the_last_text_counts(page):
    for end in range(1, len(TEXT) + 1):
        page.type("#text", TEXT[:end])
    translated(page)
    page.run("new Promise(done => setTimeout(done, 500))")
    assert page.text("#translation") == TEXT[::-1]


def test_other_translations_are_listed_and_can_be_chosen(page):
    translated(page)
    rows = page.run(
        "[...document.querySelectorAll('#nbest label')]"
        ".map(row => row.innerText.split('\\n').map(s => s.trim()))"
    )
    said = [TEXT[::-1] + mark for mark in ("", "?", "!")]
    assert [row[0] for row in rows] == said
    assert [row[-1] for row in rows] == ["−2.200", "−3.200", "−4.200"]
    page.click("#nbest label", 1)
    assert page.text("#translation") == said[1]
    page.press("ArrowDown")
    assert page.text("#translation") == said[2]


def test_pointing_at_a_piece_shows_where_it_looked(page):
    translated(page)
    assert set(shares(page)) == {0}
    page.hover("#target button", 1)
    first = shares(page)
    page.hover("#target button", 2)
    second = shares(page)
    assert max(first) > 0.1
    assert first != second
    assert "looked at" in page.text("#reading")
    page.hover("#source button", 0)
    assert "was looked at by" in page.text("#reading")
    page.hover("h1")
    assert set(shares(page)) == {0}


def test_layers_and_heads_switch(page):
    translated(page)

    def looked_at():
        """The piece that the second one of the translation looks at most."""
        page.run("document.querySelectorAll('#target button')[1].focus()")
        found = shares(page)
        assert max(found) > 0.8
        return found.index(max(found))

    def choose(name, value):
        page.run(
            f"(choice => {{ choice.value = '{value}'; choice.onchange(); }})"
            f"(document.querySelector('#{name}'))"
        )

    # Head h of layer l of the toy looks l + h pieces further.
    choose("layer", "0")
    choose("head", "0")
    assert looked_at() == 1
    choose("head", "2")
    assert looked_at() == 3
    choose("layer", "1")
    assert looked_at() == 4
    assert page.text("#reading").startswith("Layer 2, head 3")
    page.click("#maps button", 1)
    assert page.run("document.querySelector('#layer').value") == "0"
    assert page.run("document.querySelector('#head').value") == "1"
    assert looked_at() == 2


def test_maps_show_a_head_while_it_is_pointed_at(page):
    translated(page)
    before = page.text("#reading")
    page.hover("#maps button", 4)
    assert page.text("#reading") == "Layer 2, head 1."
    page.hover("h1")
    assert page.text("#reading") == before == "All layers, all heads."


def test_keys_walk_through_pieces_and_maps(page):
    translated(page)
    page.run("document.querySelector('#source button').focus()")
    page.press("ArrowDown")
    assert page.run("document.activeElement.innerText").strip() == "cat"
    page.press("ArrowRight")
    assert page.run("document.activeElement.closest('ol').id") == "target"
    page.run("document.querySelector('#maps [tabindex=\"0\"]').focus()")
    page.press("ArrowUp")
    label = page.run("document.activeElement.ariaLabel")
    assert label == "Layer 2, all heads"


def test_every_control_has_a_name(page):
    translated(page)
    nameless = page.run(
        "[...document.querySelectorAll('button, input, select, textarea')]"
        ".filter(e => !(e.ariaLabel || e.innerText.trim() || e.labels?.length))"
        ".map(e => e.outerHTML)"
    )
    assert nameless == []


def test_too_long_a_text_is_said_so(page):
    translated(page)
    page.type("#text", "x" * 503)
    assert "3 characters too long" in page.text("#message")
    translated(page)
    assert page.run("document.querySelector('#message').hidden")


def test_what_the_server_refuses_is_shown(page):
    page.run(
        "(fetch => window.fetch = (address, options) => "
        "fetch(address.replace('toy:', 'gone:'), options))(fetch)"
    )
    page.type("#text", TEXT)
    page.wait("!document.querySelector('#message').hidden")
    assert "Servable not found for request: Latest(gone)" in page.text(
        "#message"
    )
    # The same would be refused again.
    assert page.run("document.querySelector('#message button')") is None


def test_a_busy_server_may_be_asked_again(page):
    page.run(
        "(fetch => window.fetch = (...asked) => { window.fetch = fetch; "
        'return Promise.resolve(new Response(\'{"error": "Busy."}\', '
        "{ status: 503 })); })(fetch)"
    )
    page.type("#text", TEXT)
    page.wait("document.querySelector('#message button')?.innerText")
    assert page.text("#message") == "Busy.\nTry again"
    page.run("document.querySelector('#message button').click()")
    page.wait("document.querySelector('#message').hidden")
    page.wait(
        f"document.querySelector('#translation').innerText == '{TEXT[::-1]}'"
    )


def test_a_text_that_the_model_cannot_read_to_its_end_is_said_so(page):
    cut = "!document.querySelector('#cut').hidden"
    translated(page, "one two three")
    assert not page.run(cut)
    page.type("#text", "word " * 40)
    page.wait(cut)
    assert "reads 30 pieces at once" in page.text("#cut")
    translated(page)
    assert not page.run(cut)


def test_what_was_refused_for_one_translation_is_not_said_of_the_next(page):
    translated(page)
    page.run(
        "(fetch => window.fetch = (address, options) => fetch(address, "
        "options.body.includes('?') ? {...options, body: '{}'} : options)"
        ")(fetch)"
    )
    page.run("document.querySelectorAll('#nbest input')[1].click()")
    page.wait("!document.querySelector('#message').hidden")
    page.run("document.querySelectorAll('#nbest input')[2].click()")
    page.wait(LINES)
    assert page.run("document.querySelector('#message').hidden")


def test_a_browser_that_keeps_nothing_translates(page, server):
    script = page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="Object.defineProperty(window, 'localStorage', "
        "{ get() { throw new DOMException('', 'SecurityError'); } })",
    )
    page.open(f"http://{server.address}/")
    page.wait("document.querySelector('#model').textContent")
    translated(page)
    theme = "document.documentElement.dataset.theme"
    before = page.run(theme)
    page.run("document.querySelector('#theme').click()")
    assert page.run(theme) != before
    page.call("Page.removeScriptToEvaluateOnNewDocument", **script)
    page.open(f"http://{server.address}/")


def test_a_silent_server_is_said_so_and_forgiven(page):
    translated(page)
    page.call("Network.enable")
    state = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.call("Network.emulateNetworkConditions", offline=True, **state)
    page.type("#text", TEXT + " again")
    page.wait("!document.querySelector('#message').hidden")
    assert "does not answer" in page.text("#message")
    page.call("Network.emulateNetworkConditions", offline=False, **state)
    page.wait("document.querySelector('#message').hidden")
    translated(page, TEXT + " again")


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_nothing_is_wider_than_the_window(page, width):
    page.resize(width=width, height=800)
    translated(page, "Donaudampfschifffahrtsgesellschaft or not" + " so" * 30)
    assert page.run("document.documentElement.scrollWidth") <= width


def test_colours_follow_the_system_and_the_button(page):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    page.resize(dark=True)
    page.wait(f"{ground} != '{light}'")
    page.click("#theme")
    page.wait(f"{ground} == '{light}'")
