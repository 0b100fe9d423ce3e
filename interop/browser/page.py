"""The browser as a person has it in front of them."""

import json
from pathlib import Path

from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

SEEN_WITHIN_S = 30
AUDIT = (Path(__file__).parent / "audit.js").read_text()


class Page:
    """One tab."""

    def __init__(self, driver, url: str) -> None:
        self.driver = driver
        self.url = url
        self.expected_failures: list[str] = []

    def open(self, path: str) -> None:
        """Goes to an address of the hub."""
        self.driver.get(self.url + path)

    @property
    def path(self) -> str:
        """Where it is."""
        return self.driver.current_url.removeprefix(self.url)

    @property
    def text(self) -> str:
        """What can be read."""
        return self.driver.find_element(By.TAG_NAME, "body").text

    def find(self, css: str) -> WebElement:
        """An element, once it is there."""
        return self.until(lambda: next(iter(self.driver.find_elements(By.CSS_SELECTOR, css)), None), css)

    def until(self, condition, what: str):
        """What the condition gives once it gives something. A page that changes while it is looked at is looked at again."""
        wait = WebDriverWait(self.driver, SEEN_WITHIN_S, 0.1, [StaleElementReferenceException])
        try:
            return wait.until(lambda _: condition())
        except TimeoutException:
            raise AssertionError(f"{what}\n{self.path}\n{self.text}") from None

    def says(self, text: str) -> None:
        """Waits until a text can be read."""
        self.until(lambda: text in self.text, f"{text!r} is not to be read")

    def press(self, label: str, within: str = "main") -> None:
        """Presses the button with this label, of which the page itself takes care."""

        def pressed() -> bool:
            for button in self.driver.find_elements(By.CSS_SELECTOR, f"{within} button"):
                if button.is_displayed() and button.text.splitlines()[:1] == [label]:
                    button.click()
                    return True
            return False

        self.until(pressed, f"no button {label!r}")

    def submit(self, label: str, within: str = "main") -> None:
        """Presses the button with this label, and waits until the page that it leads to has taken the place of this one."""
        before = self.driver.find_element(By.TAG_NAME, "html").id
        self.press(label, within)
        self.until(lambda: self.find("html").id != before and self.is_complete(), f"{label!r} leads nowhere")

    def is_complete(self) -> bool:
        """Whether all of the page is there."""
        return self.driver.execute_script("return document.readyState") == "complete"

    def type(self, css: str, text: str) -> None:
        """Types into a field in place of what stands there."""
        field = self.find(css)
        field.clear()
        field.send_keys(text)

    def keys(self, *keys: str) -> None:
        """Presses keys, wherever the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def enter(self, link: str) -> None:
        """Gets in by a one-time link."""
        self.driver.get(link)
        self.find("#enter").send_keys(Keys.ENTER)
        self.says("You are in.")

    def set_scheme(self, scheme: str) -> None:
        """`dark` or `light`, as the system would say."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def set_width(self, width: int) -> None:
        """How wide the page is, in CSS pixels."""
        metrics = {"width": width, "height": 812, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def audit(self) -> list[str]:
        """What is wrong with the page for people who see little, use no mouse or listen."""
        return self.driver.execute_script(AUDIT)

    def live(self) -> None:
        """Waits until the page is kept fresh."""
        self.find(".live.on")

    def quiet(self) -> None:
        """Nothing went wrong in the browser but what was expected, and no host but the hub was asked."""
        wrong = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        wrong = [text for text in wrong if not any(part in text for part in self.expected_failures)]
        assert wrong == [], wrong
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        elsewhere = [url for url in sent if not url.startswith((self.url, "data:", "about:"))]
        assert elsewhere == [], elsewhere
        assert sent, "the browser says what it asks for"
