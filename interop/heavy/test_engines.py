"""Two installations of the published engine lean-ctx on one hub: one story, told in order.

Each test stands on what the ones before it left, as the engines' days do.
"""

import os
import re
import urllib.parse

import pytest
from engine import COMMAND_SECONDS_MAX, Engine, finish
from hub import ROOT, Hub, eventually
from line import Line

BINARY = os.environ.get("LEAN_CTX_BIN") or str(ROOT / ".cache/lean-ctx/target/debug/lean-ctx")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    hub = Hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def line(hub):
    address = urllib.parse.urlsplit(hub.url)
    line = Line((address.hostname, address.port))
    yield line
    line.close()


@pytest.fixture(scope="module")
def engines(hub, line, tmp_path_factory):
    """Ada's engine reaches the hub through the line, Ben's directly."""
    ada = Engine(BINARY, tmp_path_factory.mktemp("ada"), hub, line.url, "ada-laptop")
    ben = Engine(BINARY, tmp_path_factory.mktemp("ben"), hub, hub.url, "ben-desk")
    try:
        for engine, role in ((ada, "dev"), (ben, "review")):
            engine.go_online(role)
        yield ada, ben
    finally:
        ada.stop()
        ben.stop()


@pytest.fixture(scope="module")
def watcher(hub):
    """A token of its own that reads what is on the channel for everyone."""
    return hub.command("token", "create", "--label", "watcher")


@pytest.fixture(scope="module")
def channel(hub, engines, watcher):
    (vault,) = [vault for vault in hub.command("vault", "list") if vault["name"] != "main"]
    return f"org:{watcher['org_id']}/vault:{vault['vault_id']}/general"


@pytest.fixture(scope="module")
def story():
    """What later tests need of earlier ones."""
    return {}


def stored_texts(hub, channel, token):
    return [message["body"]["text"] for message in hub.messages(channel, token)]


def gid_shown(shown: str) -> str:
    """The id by which an agent replies."""
    return re.findall(r"^gid: (\S+)", shown, re.MULTILINE)[-1]


def test_both_connect_and_find_the_same_vault(engines, hub, channel):
    for engine in engines:
        assert f"Connected {engine.label}" in engine.connected
        status = engine.command("hive", "status")
        assert f"Instance:     {engine.label} ({engine.instance_id})" in status
        assert "Lease:        valid until" in status
    assert engines[0].vault_address() == engines[1].vault_address(), "the same repository is the same vault"
    kinds = {one["label"]: one["kind"] for one in hub.command("token", "list")}
    assert {kinds[engine.label] for engine in engines} == {"engine"}


def test_each_sees_the_other_come(engines):
    ada, ben = engines
    eventually(lambda: ada.knows(ben) and ben.knows(ada), "both know of each other")


def test_a_question_reaches_the_one_asked(engines, hub, story):
    ada, ben = engines
    queued = ada.agent_tool("send", type="question", to_agent=ben.agent, message="Does the retry budget hold?")
    assert "Queued [question]" in queued
    shown = ben.hears("Does the retry budget hold?")
    assert f"from: {ada.agent}@{ada.label}" in shown and f"from instance: {ada.instance_id}" in shown
    assert "[question] trust=team" in shown and "deadline: " in shown
    story["question"] = gid_shown(shown)


def test_the_answer_comes_back_in_its_thread(engines, story):
    ada, ben = engines
    queued = ben.agent_tool("reply", reply_to=story["question"], message="It holds: three tries.")
    assert "Queued [answer]" in queued
    shown = ada.hears("It holds: three tries.")
    assert f"thread: {story['question']}" in shown and f"reply to: {story['question']}" in shown


def test_the_sender_gets_the_receipt(engines, story):
    ada, ben = engines
    receipt = rf"stored as {re.escape(story['question'])}; read by {re.escape(ben.agent)}"
    eventually(lambda: ada.was_told(receipt), "the question is shown as read")


def test_the_hub_bound_the_question_to_one_instance(engines, hub, channel, watcher, story):
    ada, ben = engines
    thread = hub.command("thread", story["question"])
    assert [message["type"] for message in thread] == ["question", "answer"]
    assert [message["from"]["instance_id"] for message in thread] == [ada.instance_id, ben.instance_id]
    assert hub.messages(channel, watcher["token"]) == [], "direct messages are not for a third party"


def test_a_finding_reaches_everyone(engines, hub, channel, watcher):
    ada, ben = engines
    ben.agent_tool("send", type="finding", message="The build is green again.", references=["commit:0a1b2c3"])
    shown = ada.hears("The build is green again.")
    assert "commit 0a1b2c3" in shown
    assert stored_texts(hub, channel, watcher["token"]) == ["The build is green again."]


def test_a_post_to_the_channel_is_carried(engines):
    ada, ben = engines
    posted = ada.agent_tool("post", to_agent=f"#{ada.vault_address()}", category="finding", message="Deploy window opens at nine.")
    assert "Posted" in posted
    ben.hears("Deploy window opens at nine.", action="read")


def test_what_was_stored_but_not_confirmed_is_sent_again_and_stored_once(engines, hub, line, channel, watcher):
    ada, ben = engines
    line.cut_at_next_stored()
    ada.agent_tool("send", type="finding", message="Sent once, whatever happens.")
    assert line.cut.wait(COMMAND_SECONDS_MAX), "the hub stored it"
    hub.kill()
    hub.start()
    lost = line.kept_back
    eventually(lambda: any(frame["client_msg_id"] == lost["client_msg_id"] for frame in line.stored), "it is sent again")
    again = next(frame for frame in line.stored if frame["client_msg_id"] == lost["client_msg_id"])
    assert again == lost, "the first answer, again"
    ben.hears("Sent once, whatever happens.")
    assert stored_texts(hub, channel, watcher["token"]).count("Sent once, whatever happens.") == 1


def test_both_are_back_after_the_restart(engines):
    ada, ben = engines
    ben.agent_tool("send", type="question", to_agent=ada.agent, message="Still there?")
    ada.agent_tool("reply", reply_to=gid_shown(ada.hears("Still there?")), message="Still here.")
    ben.hears("Still here.")


def test_a_name_nobody_announced_is_refused(engines):
    refused = engines[0].agent_tool("send", type="question", to_agent="nobody-1", message="Anyone?")
    assert refused.startswith("Error: not sent: no other instance announced nobody-1")


def test_a_revoked_engine_stops_for_good(engines, hub, channel, watcher):
    ada, ben = engines
    hub.command("token", "revoke", ben.instance_id)
    assert ben.relay.wait(COMMAND_SECONDS_MAX) != 0, "the relay ended by itself"
    assert "revoked" in ben.relay_log.read_text().lower()
    again = ben.start("hive", "bus", "relay", "--for", "30")
    output = finish(again)
    assert again.returncode != 0 and "revoked" in output.lower()
    before = len(hub.messages(channel, watcher["token"]))
    ben.agent_tool("send", type="finding", message="I am not here.")
    ada.agent_tool("send", type="finding", message="I am.")
    eventually(lambda: len(hub.messages(channel, watcher["token"])) > before, "the other goes on")
    assert "I am not here." not in stored_texts(hub, channel, watcher["token"])


def test_everything_is_accounted_for_and_the_log_is_whole(hub, engines):
    bus = hub.command("ledger")["bus"]
    assert bus["accepted"] == sum(count for name, count in bus.items() if name != "accepted") > 0
    assert hub.command("log", "verify")["ok"] is True
