"""The signatures of webhooks, checked by the standard's own Python library: the golden request of `crates/channels/fixtures/webhook`, which a
test of that crate takes off the wire."""

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
import standardwebhooks.webhooks
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

FIXTURES = Path(__file__).parents[2] / "crates/channels/fixtures/webhook"
OTHER_SECRET = "whsec_b3RoZXIgc2VjcmV0IG9mIG5vYm9keSBhdCBhbGw="


def golden() -> tuple[list[str], dict[str, str], bytes]:
    """Secrets, headers and body."""
    head = json.loads((FIXTURES / "request.head.json").read_text())
    return head["secrets"], head["headers"], (FIXTURES / "request.body.json").read_bytes()


@pytest.fixture(autouse=True)
def at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library compares the timestamp with a clock: it is set to when the request was made."""
    moment = datetime.fromtimestamp(int(golden()[1]["webhook-timestamp"]), tz=timezone.utc)

    class Then(datetime):
        @classmethod
        def now(cls, tz: timezone | None = None) -> datetime:
            return moment

    monkeypatch.setattr(standardwebhooks.webhooks, "datetime", Then)


def test_each_secret_verifies_while_one_replaces_the_other() -> None:
    secrets, headers, body = golden()
    assert len(secrets) == len(headers["webhook-signature"].split(" ")) == 2
    for secret in secrets:
        payload = Webhook(secret).verify(body, headers)
        assert payload["type"] == "message.created"
        assert payload["data"]["delivery"] == headers["webhook-id"]


@pytest.mark.parametrize("change", ["body", "id", "timestamp", "secret"])
def test_nothing_else_verifies(change: str) -> None:
    secrets, headers, body = golden()
    secret = OTHER_SECRET if change == "secret" else secrets[0]
    if change == "body":
        body += b" "
    elif change == "id":
        headers["webhook-id"] += "x"
    elif change == "timestamp":
        headers["webhook-timestamp"] = str(int(headers["webhook-timestamp"]) + 1)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, headers)
