#!/usr/bin/python3
"""The chat page in headless Chromium, against the real server with the demo model.

Usage: page_test.py PATH_TO_CARAT [--screenshot FILE]. Exits with 77 (skipped) where Chromium, its driver or
Selenium are missing (Debian: chromium-driver, python3-selenium).
"""
import base64
import contextlib
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.request
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("skipped: Selenium is not installed")
    sys.exit(77)
if not shutil.which("chromedriver"):
    print("skipped: chromedriver is not installed")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        port = free_port()
        cls.url = f"http://127.0.0.1:{port}/"
        cls.server = subprocess.Popen([cls.carat, "serve", ROOT / "models/demo", "--port", str(port)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.wait_until_healthy()
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--window-size=1000,800"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(options=options)

    @classmethod
    def wait_until_healthy(cls):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(cls.url + "health"):
                    return
            except OSError:
                if time.monotonic() > deadline or cls.server.poll() is not None:
                    raise
                time.sleep(0.1)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.server.terminate()
        cls.server.wait()

    def setUp(self):
        self.browser.set_window_size(1000, 800)
        self.browser.get(self.url)
        self.browser.execute_script("localStorage.clear()")
        self.browser.refresh()
        self.wait(lambda: self.find("model").text == "demo")

    def tearDown(self):
        errors = [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(errors, [])

    def find(self, name):
        return self.browser.find_element(By.ID, name)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition):
        return WebDriverWait(self.browser, PATIENCE_S, poll_frequency=0.05).until(lambda _: condition())

    def set_limit(self, tokens):
        """As if typed into the settings."""
        self.browser.execute_script(
            "const field = document.querySelector('[name=max_tokens]'); field.value = arguments[0];"
            "field.dispatchEvent(new Event('input'));", tokens)

    def say(self, text, key=Keys.ENTER):
        self.find("input").send_keys(text + key)

    def wait_for_reply(self, note="tokens"):
        self.wait(lambda: note in (self.all(".turn.assistant .foot") or [self.find("status")])[-1].text)
        return self.all(".turn.assistant .body")[-1].text

    def test_reply_is_streamed_and_its_speed_shown(self):
        self.set_limit(40)
        self.say("Once upon a time")
        self.assertTrue(self.wait_for_reply("tokens/s"))
        self.assertIn("40 tokens", self.all(".turn.assistant .foot")[-1].text)
        self.assertEqual(self.all(".turn.user .body")[-1].text, "Once upon a time")

    def test_escape_stops_a_reply_and_keeps_what_was_written(self):
        self.set_limit(100000)
        for _ in range(20):  # a story may be over before the key arrives
            before = len(self.all(".turn.assistant"))
            self.say("Tell a very long story")
            self.wait(lambda: len(self.all(".turn.assistant")) > before)
            self.wait(lambda: self.all(".turn.assistant .body")[-1].text)
            self.find("input").send_keys(Keys.ESCAPE)
            self.wait(self.find("send").is_displayed)
            self.assertTrue(self.wait_for_reply())
            note = self.all(".turn.assistant .foot")[-1].text
            if "stopped" in note:
                break
        self.assertRegex(note, r"\d+ tokens?, [\d.]+ tokens/s, stopped")
        self.assertTrue(self.find("send").is_displayed())

    def test_invitation_fits_a_model_that_continues_text(self):
        self.assertIn("how a text begins", self.find("empty").text)
        self.assertEqual(self.find("input").get_attribute("placeholder"), "The beginning of a text")

    def test_settings_open_at_their_top(self):
        for height in (800, 500):
            self.browser.set_window_size(1100, height)
            self.find("settings-open").click()
            dialog = self.find("settings")
            self.wait(dialog.is_displayed)
            self.assertEqual(dialog.get_property("scrollTop"), 0)
            self.find("settings").find_element(By.CSS_SELECTOR, "menu button").click()
            self.wait(lambda: not dialog.is_displayed())

    def test_regenerate_replaces_only_the_last_reply(self):
        self.set_limit(5)
        self.say("One")
        self.wait_for_reply()
        self.browser.find_element(By.XPATH, "//button[text()='Regenerate']").click()
        self.wait_for_reply()
        self.assertEqual(len(self.all(".turn")), 2)

    def test_edit_takes_a_message_back(self):
        self.set_limit(5)
        self.say("First words")
        self.wait_for_reply()
        self.browser.find_element(By.XPATH, "//button[text()='Edit']").click()
        self.assertEqual(self.find("input").get_attribute("value"), "First words")
        self.assertEqual(self.all(".turn"), [])

    def test_chat_and_settings_outlive_a_reload_and_a_new_chat_begins_empty(self):
        self.set_limit(5)
        self.say("Remember me")
        self.wait_for_reply()
        self.browser.refresh()
        self.assertEqual(self.all(".turn.user .body")[0].text, "Remember me")
        limit = self.browser.find_element(By.NAME, "max_tokens")
        self.assertEqual(limit.get_attribute("value"), "5")
        self.find("input").send_keys(Keys.ALT + "n")
        self.wait(lambda: not self.all(".turn"))

    def test_shift_enter_is_a_new_line(self):
        self.set_limit(2)
        self.find("input").send_keys("a", Keys.SHIFT + Keys.ENTER)
        self.find("input").send_keys("b", Keys.ENTER)
        self.wait_for_reply()
        self.assertEqual(self.all(".turn.user .body")[-1].text, "a\nb")

    def test_refused_request_says_why_and_the_next_works(self):
        self.browser.execute_script(
            "const field = document.querySelector('[name=temperature]'); field.value = '77';"
            "field.dispatchEvent(new Event('input'));")
        self.say("Hot")
        self.wait_for_reply("temperature")
        self.browser.get_log("browser")  # the refused request, which Chromium logs
        self.browser.execute_script(
            "const field = document.querySelector('[name=temperature]'); field.value = '';"
            "field.dispatchEvent(new Event('input'));")
        self.set_limit(3)
        self.say("Cold")
        self.wait_for_reply("3 tokens")

    def test_phone_sized_window_needs_no_sideways_scrolling(self):
        self.browser.set_window_size(500, 700)  # Chromium's narrowest window
        frame = "document.body.style.width = '320px'; return document.body.scrollWidth"
        self.set_limit(30)
        self.say("word " * 30)
        self.wait_for_reply()
        self.assertLessEqual(self.browser.execute_script(frame), 320)

    def test_dark_and_light_have_readable_contrast(self):
        for theme in ("dark", "light"):
            self.browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
            back, text = self.browser.execute_script(
                "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]")
            self.assertGreater(contrast(back, text), 7, theme)

    def test_screenshot(self):
        if not self.screenshot:
            self.skipTest("no --screenshot")
        self.set_limit(120)
        self.say("Once upon a time there was a fox who")
        self.wait_for_reply("tokens/s")
        self.browser.save_screenshot(self.screenshot)


def contrast(first, second):
    """WCAG 2 contrast ratio of two colours written as rgb(r, g, b)."""
    def luminance(colour):
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1:-1].split(",")[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


class MarkdownTest(unittest.TestCase):
    """markdown.js alone, on an empty page."""

    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox"):
            options.add_argument(argument)
        cls.browser = webdriver.Chrome(options=options)
        source = (ROOT / "src/server/page/markdown.js").read_bytes()
        cls.browser.set_script_timeout(PATIENCE_S)
        cls.browser.execute_async_script(
            "const [url, done] = arguments; import(url).then((m) => { window.markdown = m; done(); });",
            "data:text/javascript;base64," + base64.b64encode(source).decode())

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()

    def render(self, *states):
        """The HTML after showing each of `states` in turn in one place."""
        return self.browser.execute_script(
            "const root = document.createElement('div');"
            "for (const text of arguments[0]) markdown.showMarkdown(root, text);"
            "return root.innerHTML;", list(states))

    def test_inline_forms(self):
        self.assertEqual(self.render("a **b** *c* `d*e*` ~~f~~ snake_case_name 2 * 3 * 4"),
                         "<p>a <strong>b</strong> <em>c</em> <code>d*e*</code> <del>f</del> "
                         "snake_case_name 2 * 3 * 4</p>")

    def test_html_stays_text(self):
        for text in ("<img src=x onerror=alert(1)>", "`<b>`", "# <script>x</script>", "```\n<i>\n```"):
            html = self.render(text)
            for tag in ("<img", "<b>", "<script", "<i>"):
                self.assertNotIn(tag, html)

    def test_only_web_and_mail_addresses_become_links(self):
        self.assertIn('href="https://example.org/a_(b)"', self.render("[x](https://example.org/a_(b))"))
        for address in ("javascript:alert(1)", "data:text/html,x", "/path", "JavaScript:x"):
            self.assertNotIn("<a", self.render(f"[x]({address})"))

    def test_blocks(self):
        self.assertEqual(self.render("## T\ntext\n\n> q\n\n---"),
                         "<h2>T</h2><p>text</p><blockquote><p>q</p></blockquote><hr>")
        self.assertEqual(self.render("1. a\n   - b\n   - c\n2. d"),
                         '<ol start="1"><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ol>')
        self.assertEqual(self.render("|a|b|\n|-|-|\n|1|2|"),
                         "<table><thead><tr><th>a</th><th>b</th></tr></thead>"
                         "<tbody><tr><td>1</td><td>2</td></tr></tbody></table>")

    def test_fence_keeps_blank_lines_and_ends_only_at_its_own_mark(self):
        html = self.render("````\na\n\n```\nb\n````\nafter")
        self.assertIn("a\n\n```\nb", html)
        self.assertIn("<p>after</p>", html)

    def test_a_text_shown_piece_by_piece_looks_like_the_whole(self):
        text = "Hi **there**\n\n- a\n- b\n\n```c\nint x;\n\n\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> *end*"
        pieces = [text[:end] for end in range(1, len(text) + 1)]
        self.assertEqual(self.render(*pieces), self.render(text))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__)
        sys.exit(2)
    PageTest.carat = sys.argv.pop(1)
    PageTest.screenshot = None
    if "--screenshot" in sys.argv:
        place = sys.argv.index("--screenshot")
        PageTest.screenshot = sys.argv[place + 1]
        del sys.argv[place:place + 2]
    unittest.main(verbosity=2)
