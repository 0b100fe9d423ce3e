"""The stand-in of Slack, driven by Slack's own Python libraries: what they take for Slack is near enough to it."""

import json
import queue
from collections.abc import Callable, Iterator

import pytest
from conftest import Standin
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
from slack_sdk.models.blocks import ActionsBlock, ButtonElement, SectionBlock
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

ADA = "U024BE7LH"
GENERAL = "C024BE91L"
BOT_TOKEN = "xoxb-standin"
APP_TOKEN = "xapp-standin"
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
WITHIN_S = 20


@pytest.fixture
def slack(standin: Callable[[str], Standin]) -> Standin:
    return standin("slack")


@pytest.fixture
def web(slack: Standin) -> WebClient:
    return WebClient(token=BOT_TOKEN, base_url=f"{slack.address}/api/")


@pytest.fixture
def came(slack: Standin, web: WebClient) -> Iterator[queue.Queue[SocketModeRequest]]:
    """What comes over Socket Mode; each is acknowledged."""
    requests: queue.Queue[SocketModeRequest] = queue.Queue()
    client = SocketModeClient(app_token=APP_TOKEN, web_client=web)

    def take(client: SocketModeClient, request: SocketModeRequest) -> None:
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        requests.put(request)

    client.socket_mode_request_listeners.append(take)
    client.connect()
    slack.act("sockets", count=1)
    yield requests
    client.close()


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(SlackApiError) as raised:
        call()
    return raised.value.response["error"]


def test_a_message_with_buttons_is_posted_changed_and_answered(web: WebClient, slack: Standin, came: queue.Queue) -> None:
    assert web.auth_test()["user_id"] == "U0BOT00001"
    direct = web.conversations_open(users=ADA)["channel"]["id"]
    button = ButtonElement(text="Yes", action_id="switchboard_1", value="v1")
    blocks = [SectionBlock(text="*Deploy?*"), ActionsBlock(elements=[button])]
    posted = web.chat_postMessage(channel=direct, text="Deploy?", blocks=blocks)
    slack.act("press", user=ADA, message=f"{direct}:{posted['ts']}", value="v1")
    press = came.get(timeout=WITHIN_S)
    assert press.type == "interactive"
    assert press.payload["actions"][0]["value"] == "v1"
    assert press.payload["container"]["message_ts"] == posted["ts"]
    web.chat_update(channel=direct, ts=posted["ts"], text="Deployed.", blocks=[SectionBlock(text="Deployed.")])
    reply = web.chat_postMessage(channel=direct, text="done", thread_ts=posted["ts"])
    web.chat_postEphemeral(channel=GENERAL, user=ADA, text="psst")
    messages = slack.act("messages")["messages"]
    assert [one["text"] for one in messages] == ["Deployed.", "done", "psst"]
    assert (messages[1]["thread"], messages[2]["only_for"]) == (posted["ts"], ADA)
    assert error_of(lambda: web.chat_postMessage(channel=direct, text="x", thread_ts=reply["ts"])) == "cannot_reply_to_message"
    slack.act("acknowledged", count=1)


def test_what_people_do_comes_as_events(slack: Standin, came: queue.Queue) -> None:
    said = slack.act("write", user=ADA, text="yes & no")["message"]
    slack.act("edit", message=said, text="no")
    slack.act("delete", message=said)
    events = [came.get(timeout=WITHIN_S).payload["event"] for _ in range(3)]
    assert [event.get("subtype") for event in events] == [None, "message_changed", "message_deleted"]
    assert events[0]["text"] == "yes &amp; no"
    assert events[2]["deleted_ts"] == said.split(":")[1]
    slack.act("acknowledged", count=3)


def test_bolt_takes_it_for_slack_and_comes_back(slack: Standin, web: WebClient) -> None:
    heard: queue.Queue[str] = queue.Queue()
    app = App(client=web, signing_secret=SIGNING_SECRET, raise_error_for_unhandled_request=False)

    @app.event("message")
    def message(event: dict, say: Callable[..., object]) -> None:
        heard.put(event["text"])
        say("heard", thread_ts=event["ts"])

    @app.event("app_mention")
    def mention(event: dict) -> None:
        heard.put(event["type"])

    handler = SocketModeHandler(app, APP_TOKEN, web_client=web)
    handler.connect()
    try:
        slack.act("sockets", count=1)
        slack.act("write", user=ADA, text="one")
        assert heard.get(timeout=WITHIN_S) == "one"
        slack.act("disconnect", reason="warning")
        slack.act("sockets", count=2)
        slack.act("write", user=ADA, conversation=GENERAL, text="<@U0BOT00001> two")
        assert {heard.get(timeout=WITHIN_S), heard.get(timeout=WITHIN_S)} == {"<@U0BOT00001> two", "app_mention"}
        slack.act("acknowledged", count=3)
    finally:
        handler.close()


def test_asking_to_wait_is_understood(slack: Standin, web: WebClient) -> None:
    slack.act("throttle", seconds=1)
    with pytest.raises(SlackApiError) as raised:
        web.chat_postMessage(channel=GENERAL, text="x")
    assert (raised.value.response.status_code, raised.value.response.headers["retry-after"]) == (429, "1")
    slack.act("throttle", seconds=1)
    web.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=1))
    assert web.chat_postMessage(channel=GENERAL, text="x")["ok"]


def test_refusals_are_slacks_own(slack: Standin, web: WebClient) -> None:
    other = WebClient(token="xoxb-other", base_url=web.base_url)
    assert error_of(other.auth_test) == "invalid_auth"
    assert error_of(lambda: web.apps_connections_open(app_token="xapp-other")) == "invalid_auth"
    for channel, error in [("C0NOWHERE1", "channel_not_found"), ("C0OUTSIDE1", "not_in_channel"), ("C0ARCHIVE1", "is_archived")]:
        assert error_of(lambda channel=channel: web.chat_postMessage(channel=channel, text="x")) == error
    assert error_of(lambda: web.conversations_open(users="U0GONE0001")) == "user_disabled"
    long = [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]
    assert error_of(lambda: web.chat_postMessage(channel=GENERAL, text="x", blocks=long)) == "invalid_blocks"
    assert error_of(lambda: web.chat_update(channel=GENERAL, ts="1.2", text="x")) == "message_not_found"
    slack.act("revoke")
    assert error_of(web.auth_test) == "token_revoked"


def test_signatures_verify() -> None:
    """The request of Slack's documentation, which a test of `crates/channels/src/slack/signature.rs` verifies as well."""
    verifier = SignatureVerifier(SIGNING_SECRET)
    body = (
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
        "&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
        "%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121"
        ".803a0bc887a14d10d2c447fce8b6703c"
    )
    expected = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert verifier.generate_signature(timestamp="1531420618", body=body) == expected


def test_the_stand_in_signs_as_slack_does(slack: Standin) -> None:
    body = json.dumps({"type": "url_verification", "challenge": "é"})
    signature = slack.act("sign", timestamp=1531420618, body=body)["signature"]
    assert SignatureVerifier(SIGNING_SECRET).generate_signature(timestamp="1531420618", body=body) == signature
