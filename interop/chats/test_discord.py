"""The stand-in of Discord, held to discord.py: what the library sends is taken, and what it reads is what it expects."""

import asyncio
from collections.abc import Awaitable, Callable

import discord
import pytest
import yarl
from conftest import Standin
from discord.gateway import DiscordWebSocket
from discord.http import Route

TOKEN = "standin-token"
BOT, ADA, SHARED = 1100000000000000001, 1100000000000000002, 1100000000000000005
WITHIN_S = 30


class Client(discord.Client):
    """A bot that keeps what it is told of."""

    def __init__(self) -> None:
        intents = discord.Intents(guild_messages=True, dm_messages=True, message_content=True)
        super().__init__(intents=intents)
        self.told: asyncio.Queue[tuple[str, object]] = asyncio.Queue()

    async def on_message(self, message: discord.Message) -> None:
        if message.author.id != BOT:
            await self.told.put(("message", message))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        await self.told.put(("edit", payload))

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        await self.told.put(("delete", payload))

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        await self.told.put(("press", interaction))

    async def on_resumed(self) -> None:
        await self.told.put(("resumed", None))

    async def next(self, kind: str) -> object:
        """The next thing that it is told of, which is of this kind."""
        told, what = await asyncio.wait_for(self.told.get(), WITHIN_S)
        assert told == kind
        return what


@pytest.fixture(autouse=True)
def discords(standin: Callable[[str], Standin], monkeypatch: pytest.MonkeyPatch) -> Standin:
    """Discord, to which the library's addresses lead."""
    running = standin("discord")
    monkeypatch.setattr(Route, "BASE", running.address)
    monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(running.act("state")["gateway"]))
    return running


def run(story: Callable[[Client], Awaitable[None]], *, connects: bool = True) -> None:
    """Tells a story to a bot that is signed in and, mostly, connected."""

    async def told() -> None:
        async with Client() as client:
            await client.login(TOKEN)
            connection = asyncio.create_task(client.connect()) if connects else None
            if connects:
                await asyncio.wait_for(client.wait_until_ready(), WITHIN_S)
            await asyncio.wait_for(story(client), WITHIN_S)
            await client.close()
            if connection:
                await asyncio.wait([connection], timeout=WITHIN_S)

    asyncio.run(told())


async def direct(client: Client) -> discord.DMChannel:
    """Where direct messages to Ada go."""
    return await client.create_dm(discord.Object(ADA))


def test_a_message_with_buttons_is_posted_changed_and_deleted(discords: Standin) -> None:
    async def story(client: Client) -> None:
        channel = await direct(client)
        view = discord.ui.View(timeout=None)
        view.add_item(discord.ui.Button(label="Yes", custom_id="SB-K7.1"))
        message = await channel.send("Deploy?", view=view, allowed_mentions=discord.AllowedMentions.none())
        again = await channel.send("Deploy?", nonce="n1"), await channel.send("Deploy?", nonce="n1")
        assert again[0].id == again[1].id != message.id
        stored = discords.act("message", message=f"{channel.id}:{message.id}")["message"]
        assert stored["components"][0]["components"][0]["custom_id"] == "SB-K7.1"
        fetched = await channel.fetch_message(message.id)
        assert fetched.content == "Deploy?" and fetched.components[0].children[0].label == "Yes"
        changed = await message.edit(content="Deploy? Yes.", view=None)
        assert changed.edited_at and not changed.components
        reply = await message.reply("done")
        assert reply.reference.message_id == message.id and reply.type is discord.MessageType.reply
        after = [message async for message in channel.history(after=message, oldest_first=True)]
        assert [one.id for one in after] == [again[0].id, reply.id]
        await message.delete()
        with pytest.raises(discord.NotFound) as gone:
            await channel.fetch_message(message.id)
        assert gone.value.code == 10008

    run(story, connects=False)


def test_events_come_in(discords: Standin) -> None:
    async def story(client: Client) -> None:
        written = discords.act("write", text="yes")["id"]
        message = await client.next("message")
        assert (message.content, message.author.id, message.guild) == ("yes", ADA, None)
        assert isinstance(message.channel, discord.DMChannel)
        discords.act("edit", message=written, text="no")
        edit = await client.next("edit")
        assert edit.message_id == message.id and edit.message.content == "no" and edit.message.edited_at
        discords.act("delete", message=written)
        assert (await client.next("delete")).message_id == message.id
        discords.act("write_shared", text=f"<@{BOT}> hello")
        shared = await client.next("message")
        assert shared.channel.id == SHARED and client.user in shared.mentions

    run(story)


def test_a_press_is_answered(discords: Standin) -> None:
    async def story(client: Client) -> None:
        channel = await direct(client)
        view = discord.ui.View(timeout=None)
        view.add_item(discord.ui.Button(label="Yes", custom_id="SB-K7.1"))
        message = await channel.send("Deploy?", view=view)
        for _ in range(2):
            assert discords.act("press", message=f"{channel.id}:{message.id}", value="SB-K7.1")["done"]
        press = await client.next("press")
        assert press.type is discord.InteractionType.component and press.data["custom_id"] == "SB-K7.1"
        assert (press.user.id, press.message.id) == (ADA, message.id)
        other = await client.next("press")
        await client.http.request(
            Route("POST", f"/interactions/{press.id}/{press.token}/callback"), json={"type": 6}
        )
        data = {"content": "thanks", "flags": 64}
        route = Route("POST", f"/interactions/{other.id}/{other.token}/callback")
        await client.http.request(route, json={"type": 4, "data": data})
        with pytest.raises(discord.HTTPException) as twice:
            await client.http.request(route, json={"type": 6})
        assert twice.value.code == 40060
        assert [answer["type"] for _, answer in discords.act("state")["callbacks"]] == [6, 4]

    run(story)


def test_a_session_is_resumed_where_it_was(discords: Standin) -> None:
    async def story(client: Client) -> None:
        discords.act("reconnect")
        discords.act("write", text="meanwhile")
        told = [await asyncio.wait_for(client.told.get(), WITHIN_S) for _ in range(2)]
        assert {kind for kind, _ in told} == {"message", "resumed"}
        state = discords.act("state")
        assert (state["begun"], state["resumed"]) == (1, 1)

    run(story)


def test_limits_are_waited_for_and_refusals_have_their_codes(discords: Standin) -> None:
    async def story(client: Client) -> None:
        channel = await direct(client)
        discords.act("throttle", ms=300)
        started = asyncio.get_running_loop().time()
        await channel.send("patience")
        assert asyncio.get_running_loop().time() - started >= 0.3
        with pytest.raises(discord.HTTPException) as long:
            await channel.send("x" * 2001)
        assert (long.value.status, long.value.code) == (400, 50035)
        with pytest.raises(discord.NotFound) as unknown:
            await client.http.send_message(99, params=discord.http.handle_message_parameters(content="x"))
        assert unknown.value.code == 10003
        discords.act("block", user=str(ADA))
        with pytest.raises(discord.Forbidden) as blocked:
            await channel.send("hello?")
        assert blocked.value.code == 50007

    run(story, connects=False)


def test_a_wrong_token_is_refused() -> None:
    async def story() -> None:
        async with Client() as client:
            with pytest.raises(discord.LoginFailure):
                await client.login("another-token")

    asyncio.run(story())
