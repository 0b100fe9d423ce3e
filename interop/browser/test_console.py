"""The console in a browser: getting in, reading along and answering, deciding, and what other pages cannot do."""

import html
import http.client
import json
import re
import subprocess
import urllib.parse

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PASSWORD = "a sentence is easier to keep"
# What a name or a text may try.
FOREIGN = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


def ask(hub, method: str, path: str, body: str = "", **headers: str) -> http.client.HTTPResponse:
    """A request as any program can make it."""
    address = urllib.parse.urlsplit(hub.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if method == "POST":
        sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
    connection.request(method, path, body, sent)
    answer = connection.getresponse()
    answer.text = answer.read().decode()
    return answer


def cookie(page) -> str:
    """The browser's cookie as a header."""
    return "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in page.driver.get_cookies())


def test_a_link_lets_in_once(hub, page):
    page.open("/")
    assert page.path == "/console/sign-in", "nobody sees anything without a session"
    page.driver.get(hub.console_url)
    assert "#" not in page.path, "the secret leaves the address bar"
    page.enter(hub.run("console")["url"])
    assert page.path.startswith("/?done=")
    kept = page.driver.get_cookies()
    assert [(c["httpOnly"], c["sameSite"], c["path"]) for c in kept] == [(True, "Lax", "/")]
    secret = hub.console_url.partition("#")[2]
    origin = {"Origin": hub.url}
    form = urllib.parse.urlencode({"link": secret})
    assert ask(hub, "POST", "/console/enter", form, **origin).status == 303
    again = ask(hub, "POST", "/console/enter", form, **origin)
    assert again.status == 401 and again.getheader("Set-Cookie") is None
    assert "used before" in again.text


def test_password_sign_in_and_out(hub, page):
    page.expected_failures = ["401", "422"]
    page.enter(hub.console_url)
    page.open("/console/settings")
    page.type("#password", PASSWORD)
    page.type("#again", PASSWORD + "!")
    page.submit("Set password")
    page.says("not typed the same way")
    page.type("#password", PASSWORD)
    page.type("#again", PASSWORD)
    page.submit("Set password")
    page.says("The password is set.")
    page.submit("Sign out", ".side")
    assert page.path == "/console/sign-in"
    answers = []
    for name, password in (("Owner", "not the password"), ("Nobody", PASSWORD)):
        page.type("#name", name)
        page.type("#password", password)
        page.submit("Sign in")
        page.says("do not belong together")
        answers.append(page.find(".notice").text)
    assert len(set(answers)) == 1, "a name that is not there gets the same answer"
    page.type("#name", "Owner")
    page.type("#password", PASSWORD)
    page.keys(Keys.ENTER)
    page.says("Where every message is")
    page.open("/console/settings")
    assert len(page.driver.find_elements(By.CSS_SELECTOR, "main .rows > li")) == 1


def test_sessions_are_listed_and_end(hub, page):
    page.expected_failures = ["401"]
    page.enter(hub.console_url)
    other = hub.run("console")["url"].partition("#")[2]
    entered = ask(hub, "POST", "/console/enter", urllib.parse.urlencode({"link": other}), Origin=hub.url)
    theirs = entered.getheader("Set-Cookie").partition(";")[0]
    assert ask(hub, "GET", "/", Cookie=theirs).status == 200
    page.open("/console/settings")
    page.submit("End")
    page.says("The session has ended.")
    assert ask(hub, "GET", "/", Cookie=theirs).status == 303


def test_passwords_cannot_be_tried_for_long(hub, page):
    page.enter(hub.console_url)
    page.open("/console/settings")
    page.type("#password", PASSWORD)
    page.type("#again", PASSWORD)
    page.submit("Set password")
    page.says("The password is set.")

    def try_password(password: str) -> int:
        form = urllib.parse.urlencode({"name": "Owner", "password": password})
        return ask(hub, "POST", "/console/sign-in", form, Origin=hub.url).status

    assert [try_password("wrong") for _ in range(10)] == [401] * 10
    assert [try_password("wrong"), try_password(PASSWORD)] == [429, 429]
    page.enter(hub.run("console")["url"])


def test_other_pages_can_do_nothing(hub, page):
    page.enter(hub.console_url)
    page.open("/console/settings")
    token = page.find("input[name=form_token]").get_attribute("value")
    ours = {"Cookie": cookie(page)}
    good = urllib.parse.urlencode({"form_token": token})
    path = "/console/settings/sessions/end-others"
    refused = [
        ask(hub, "POST", path, good, **ours),
        ask(hub, "POST", path, good, Origin="http://evil.test", **ours),
        ask(hub, "POST", path, good, Origin="null", **ours),
        ask(hub, "POST", path, good, Origin=hub.url, Sec_Fetch_Site="cross-site", **ours),
        ask(hub, "POST", path, "form_token=x", Origin=hub.url, **ours),
        ask(hub, "POST", path, "", Origin=hub.url, **ours),
        ask(hub, "POST", path, good, Origin="http://evil.test", Host="evil.test", **ours),
        ask(hub, "GET", "/", Host="evil.test", **ours),
    ]
    assert [answer.status for answer in refused] == [403] * len(refused)
    json_body = ask(hub, "POST", path, good, Origin=hub.url, Content_Type="text/plain", **ours)
    assert json_body.status == 400
    assert ask(hub, "POST", path, good, Origin=hub.url, **ours).status == 303
    page.open("/console/settings")
    assert "this one" in page.text, "nothing has ended"


def test_every_answer_is_closed_to_others(hub, page):
    page.enter(hub.console_url)
    ours = {"Cookie": cookie(page)}
    for path in ("/", "/console/channels", "/console/sign-in", "/console/log/export", "/console/nowhere-in-assets"):
        answer = ask(hub, "GET", path.replace("nowhere-in-", ""), **ours)
        if answer.status == 404:
            continue
        policy = answer.getheader("Content-Security-Policy")
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("Cache-Control") == "no-store", path
    export = ask(hub, "GET", "/console/log/export", **ours)
    assert export.getheader("Content-Disposition").startswith("attachment")
    lines = [json.loads(line) for line in export.text.splitlines()]
    assert any(line["verb"] == "console.enter" for line in lines)
    style = page.find("link[rel=stylesheet]").get_attribute("href").removeprefix(hub.url)
    assert "immutable" in ask(hub, "GET", style).getheader("Cache-Control")


def test_writing_in_a_channel_and_seeing_the_answer_come(hub, page):
    hub.agent("send", "--channel", "general", "--as", "payments", "I am here")
    page.enter(hub.console_url)
    page.open("/console/channels")
    page.find("main .rows a").click()
    page.says("I am here")
    page.live()
    page.find("#kind").send_keys("a question")
    page.type("#text", "Which retry budget do you use?")
    page.keys(Keys.CONTROL + Keys.ENTER)
    asked = page.find(".message.mine")
    page.says("Which retry budget do you use?")
    page.until(lambda: page.find("#text").get_attribute("value") == "", "the field is empty again")
    gid = asked.find_element(By.PARTIAL_LINK_TEXT, "thread").get_attribute("href").rpartition("/")[2]
    hub.agent("send", "--channel", "general", "--as", "payments", "--reply-to", gid, f"three {FOREIGN}")
    page.says("three <img")
    assert page.driver.title.endswith("Switchboard"), "what an agent says is text"
    assert not page.driver.find_elements(By.CSS_SELECTOR, ".talk img, .talk script")
    page.driver.find_element(By.PARTIAL_LINK_TEXT, "thread").click()
    page.says("Thread on general")


def test_an_agents_question_is_answered_from_its_channel(hub, page):
    page.enter(hub.console_url)
    vault = hub.run("vault", "list")[0]["vault_id"]
    page.open(f"/console/channels/{vault}/general")
    page.live()
    command = [hub.program, "--json", "--url", hub.url, "--token", hub.token, "ask", "--channel", "general", "--as", "worker"]
    asking = subprocess.Popen([*command, "Go on?"], stdout=subprocess.PIPE, text=True)
    try:
        page.says("Go on?")
        page.driver.find_element(By.LINK_TEXT, "answer").click()
        page.says("In reply to worker")
        page.type("#text", "Yes, go on.")
        page.press("Send")
        answered = json.loads(asking.communicate(timeout=60)[0])
        assert answered["answer"]["body"]["text"] == "Yes, go on."
        assert answered["answer"]["from"] == {"kind": "person", "label": "Owner"}
    finally:
        asking.kill()
        asking.wait()


def test_agents_come_and_go_before_ones_eyes(hub, page):
    page.enter(hub.console_url)
    page.open("/console/agents")
    page.says("Nobody has announced itself yet.")
    page.live()
    hub.agent("send", "--channel", "general", "--as", "payments", "I am here")
    page.says("payments")


def test_the_log_is_filtered_and_verified(hub, page):
    page.expected_failures = ["401"]
    page.enter(hub.console_url)
    page.open("/console/log")
    page.press("Verify")
    page.says("The log holds:")
    page.type("#verb", "console.")
    page.submit("Filter")
    page.until(lambda: "verb=console." in page.path, "the filter is in the address")
    verbs = {cell.text for cell in page.driver.find_elements(By.CSS_SELECTOR, "td code")}
    assert verbs == {"console.link", "console.enter"}


def test_everything_works_without_a_script(hub, page):
    page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.open("/console/enter")
        page.type("#link", hub.console_url.partition("#")[2])
        page.submit("Enter")
        vault = hub.run("vault", "list")[0]["vault_id"]
        page.open(f"/console/channels/{vault}/general")
        page.type("#text", "said without a script")
        page.submit("Send")
        page.says("said without a script")
        page.open("/console/log")
        page.submit("Verify")
        page.says("The log holds:")
    finally:
        page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


QUESTION = {"channel": "console", "to": "Owner", "body": "Deploy to production?", "choices": ["Yes", "Not today"]}
# A service that does not say whether it has delivered.
UNSURE = """
[[channel]]
name = "pager"
kind = "exec"
command = ["/bin/sh", "-c", "cat >/dev/null; echo '{\\"status\\":\\"unknown\\",\\"reason\\":\\"the modem hung up\\"}'"]
"""


def test_a_question_to_a_person_is_answered_with_a_press(hub, page):
    page.enter(hub.console_url)
    page.open("/console/inbox")
    page.says("No question waits.")
    page.live()
    first = hub.tool("messaging.send", **QUESTION)
    second = hub.tool("messaging.send", **{**QUESTION, "body": f"And then? {FOREIGN}", "choices": ["Nothing"]})
    assert (first["delivered"], first["queued"], second["queued"]) == (True, False, True)
    page.says("Deploy to production?")
    page.says("waits its turn")
    page.until(lambda: page.find("[data-count=Inbox]").text == "1", "one question can be answered")
    page.submit("Not today")
    page.says("Answered. The agent has it.")
    told = hub.tool("conversation.get", topic_id=first["topic_id"], wait_ms=20_000)
    assert (told["state"], told["answer"]["text"], told["answer"]["via"]) == ("answered", "Not today", "console")
    page.says("And then? <img")
    page.until(lambda: "waits its turn" not in page.text, "the next one has the floor")
    page.type("main textarea", "then we go home")
    page.keys(Keys.CONTROL + Keys.ENTER)
    told = hub.tool("conversation.get", topic_id=second["topic_id"], wait_ms=20_000)
    assert told["answer"]["text"] == "then we go home"
    page.says("Answered lately")
    assert page.driver.title.endswith("Switchboard"), "what an agent says is text"


def test_a_notice_arrives_and_can_be_traced(hub, page):
    page.enter(hub.console_url)
    page.open("/console/inbox")
    page.live()
    sent = hub.tool("messaging.send", channel="console", to="owner", body="The backup is done.", message_kind="notice")
    page.says("The backup is done.")
    page.open("/console/outbound")
    page.says("delivered")
    page.find(f"#{sent['send_id']} a").click()
    page.says("Why it is where it is")
    page.says("It has arrived.")


@pytest.mark.config(UNSURE)
def test_what_is_uncertain_is_decided_by_a_person(hub, page):
    page.enter(hub.console_url)
    page.open("/console/pairing")
    page.says("Nobody has agreed yet.")
    page.type("#allow-to", "ada")
    page.submit("Allow")
    page.says("Allowed.")
    page.open("/console/outbound?show=attention")
    page.says("Nothing is here.")
    page.live()
    hub.tool("messaging.send", channel="pager", to="ada", body="Wake up", message_kind="notice")
    page.says("Wake up")
    page.find("main .rows a").click()
    page.says("Whether it arrived is not known")
    page.submit("Give up")
    page.says("It was given up.")
    page.open("/console/pairing")
    page.submit("Revoke")
    page.says("Revoked.")


RULES = """
deny_keyword = ["BEGIN PRIVATE KEY"]

[[require_approval]]
name = "ask-first"
tool = "messaging.send"
param = "channel"
equals = "console"
reason = "People are asked before they are written to."
"""


@pytest.mark.policy(RULES)
def test_a_send_is_approved_and_seen_delivered(hub, page):
    page.enter(hub.console_url)
    page.open("/console/approvals")
    page.says("Nothing waits for a decision.")
    page.live()
    held = hub.tool("messaging.send", channel="console", to="owner", body=f"It is done. {FOREIGN}", message_kind="notice")
    assert (held["delivered"], held["state"]) == (False, "held")
    page.says("It is done. <img")
    page.says("ask-first")
    page.until(lambda: page.find("[data-count=Approvals]").text == "1", "it is counted in the navigation")
    page.submit("Approve")
    page.says("Approved.")
    page.says("by Owner via console")
    page.open(f"/console/outbound/{held['send_id']}")
    page.until(lambda: page.find(".badge").text == "delivered", "it has left")
    page.open("/console/inbox")
    page.says("It is done. <img")
    denied = hub.tool("messaging.send", channel="console", to="owner", body="And this?", message_kind="notice")
    page.open("/console/approvals")
    page.submit("Deny")
    page.says("Denied.")
    page.open("/console/outbound?show=done")
    page.until(lambda: page.find(f"#{denied['send_id']} .badge").text == "refused", "it does not leave")
    page.open("/console/log")
    page.press("Verify")
    page.says("The log holds:")


# Olivia is asked by mail.
BY_MAIL = """
[[channel]]
name = "post"
kind = "email"
smtp_url = "smtp+plain://127.0.0.1:RELAY_PORT"
from = "hub@example.test"

[outbound]
approvers = ["post:olivia@example.test"]
"""


@pytest.mark.policy(RULES)
@pytest.mark.config(BY_MAIL)
def test_the_link_in_a_mail_decides_without_signing_in(hub, page, relay):
    page.expected_failures = ["404"]
    hub.run("pair", "allow", "--channel", "post", "--to", "olivia@example.test")
    held = hub.tool("messaging.send", channel="console", to="owner", body=f"It is done. {FOREIGN}", message_kind="notice")
    link = html.unescape(re.search(r'href="([^"]*/console/decide/[^"]*)"', relay.next_html()).group(1))
    assert link.startswith(hub.url), link
    page.open(link.removeprefix(hub.url))
    page.says("An approval is wanted")
    page.says("It is done. <img")
    page.says("olivia@example.test")
    assert not page.driver.find_elements(By.CSS_SELECTOR, "main .body img, main .body script"), "what an agent says is text"
    assert page.audit() == []
    page.open(page.path)
    page.submit("Approve")
    page.says("Approved")
    page.says("by olivia@example.test via mail-link")
    assert not page.driver.find_elements(By.CSS_SELECTOR, "form"), "there is nothing more to decide"
    told = hub.run("outbound", "show", held["send_id"])
    assert (told["approval"]["state"], told["approval"]["decided_via"]) == ("approved", "mail-link")
    assert not page.driver.get_cookies(), "nobody was let in"
    page.open(page.path[:-1])
    page.says("This link decides nothing")


@pytest.mark.policy(RULES)
def test_rules_say_what_would_become_of_a_call(hub, page):
    page.enter(hub.console_url)
    page.open("/console/policy")
    page.says("ask-first")
    page.type("#channel", "console")
    page.type("#call-to", "owner")
    page.type("#body", "All is well.")
    page.press("Ask")
    page.says("It waits for an approval.")
    page.type("#body", "-----BEGIN PRIVATE KEY-----")
    page.press("Ask")
    page.says("It may not be sent.")
    page.type("#channel", "pager")
    page.type("#body", "All is well.")
    page.press("Ask")
    page.says("It may be sent.")


PAGES = (
    "/",
    "/console/inbox",
    "/console/approvals",
    "/console/channels",
    "/console/agents",
    "/console/tasks",
    "/console/outbound",
    "/console/policy",
    "/console/pairing",
    "/console/log",
    "/console/settings",
)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (375, "light"), (375, "dark")])
def test_pages_can_be_read_and_used_by_all(hub, page, width, scheme):
    hub.agent("send", "--channel", "general", "--as", "payments", "w" * 300)
    hub.tool("messaging.send", **QUESTION)
    sent = hub.tool("messaging.send", channel="console", to="owner", body="w" * 300, message_kind="notice")
    page.set_scheme(scheme)
    page.set_width(width)
    try:
        page.open("/console/sign-in")
        faults = {"/console/sign-in": page.audit()}
        page.enter(hub.console_url)
        vault = hub.run("vault", "list")[0]["vault_id"]
        for path in (*PAGES, f"/console/channels/{vault}/general", f"/console/outbound/{sent['send_id']}"):
            page.open(path)
            faults[path] = page.audit()
        assert not any(faults.values()), json.dumps(faults, indent=1)
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_keyboard_reaches_everything(hub, page):
    page.enter(hub.console_url)
    page.find("body").send_keys(Keys.TAB)
    skip = page.driver.switch_to.active_element
    assert skip.text == "Skip to the content" and skip.rect["x"] >= 0, "it appears when it has the focus"
    reached = set()
    for _ in range(40):
        page.keys(Keys.TAB)
        reached.add(page.driver.switch_to.active_element.text.splitlines()[0] if page.driver.switch_to.active_element.text else "")
    assert {"Overview", "Channels", "Agents", "Log", "Settings", "Sign out"} <= reached
