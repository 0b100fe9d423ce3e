"""The stand-in of Telegram's Bot API, driven by the client library that most Python bots use: what it can do with the real API it can do
here, so that the channel that passes over the stand-in speaks the real protocol."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    ReplyParameters,
    Update,
)
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, RetryAfter
from telegram.ext import Application, CallbackQueryHandler, MessageHandler, filters
from telegram.request import HTTPXRequest

from conftest import Standin

TOKEN = "123456789:AAstandin-stands-in_for-telegrams"
ADA, EVE = 4711, 666
GROUP = -1009007199254740993
T = TypeVar("T")


@pytest.fixture
def service(standin: Callable[[str], Standin]) -> Standin:
    """The stand-in of this file."""
    return standin("telegram")


def run(service: Standin, story: Callable[[Bot], Awaitable[T]], token: str = TOKEN) -> T:
    """Tells a story with a bot of the library."""

    async def told() -> T:
        # Two requests for updates at a time take two connections.
        polls = HTTPXRequest(connection_pool_size=2)
        async with Bot(token, f"{service.address}/bot", get_updates_request=polls) as bot:
            return await story(bot)

    return asyncio.run(asyncio.wait_for(told(), 60))


def test_the_bot_knows_itself(service: Standin) -> None:
    async def story(bot: Bot) -> None:
        assert (bot.username, bot.id, bot.can_join_groups) == ("switchboard_bot", 123456789, True)

    run(service, story)


def test_a_wrong_token_is_refused(service: Standin) -> None:
    async def story(bot: Bot) -> None:
        raise AssertionError(bot)

    with pytest.raises(InvalidToken):
        run(service, story, "123456789:AAwrong-token-of-nobody-at-all_000")


def test_messages_have_looks_buttons_and_replies(service: Standin) -> None:
    async def story(bot: Bot) -> None:
        keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="SB-K7QD3M.1")]])
        html = '<b>Question</b> 🦀 <a href="https://x.test/?a=1&amp;b=2">p</a>\n<blockquote>q</blockquote><pre><code class="language-rust">a &lt; b</code></pre>'
        sent = await bot.send_message(
            GROUP, html, "HTML", reply_markup=keyboard, link_preview_options=LinkPreviewOptions(is_disabled=True)
        )
        assert sent.chat.id == GROUP and sent.from_user.is_bot
        assert sent.text == "Question 🦀 p\nqa < b"
        kinds = [(entity.type, sent.parse_entity(entity)) for entity in sent.entities]
        assert ("bold", "Question") in kinds and ("text_link", "p") in kinds and ("blockquote", "q") in kinds
        assert sent.reply_markup.inline_keyboard[0][0].callback_data == "SB-K7QD3M.1"
        reply = await bot.send_message(GROUP, "@ada see /stop", reply_parameters=ReplyParameters(sent.message_id))
        assert reply.reply_to_message.message_id == sent.message_id
        assert [entity.type for entity in reply.entities] == ["mention", "bot_command"]
        gone = ReplyParameters(9999, allow_sending_without_reply=True)
        assert (await bot.send_message(GROUP, "x", reply_parameters=gone)).reply_to_message is None
        with pytest.raises(BadRequest, match="replied not found"):
            await bot.send_message(GROUP, "x", reply_parameters=ReplyParameters(9999))

    run(service, story)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "text is empty"),
        ("x" * 4097, "too long"),
        ("<b>x", "find end tag"),
        ("<b><i>x</b></i>", "Unmatched end tag"),
        ("<h1>x</h1>", "Unsupported start tag"),
    ],
)
def test_what_cannot_be_sent_is_refused(service: Standin, text: str, why: str) -> None:
    async def story(bot: Bot) -> None:
        with pytest.raises(BadRequest, match=f"(?i){why}"):
            await bot.send_message(ADA, text, "HTML")
        escaped = "&lt;" * 4096
        assert len((await bot.send_message(ADA, escaped, "HTML")).text) == 4096

    run(service, story)


def test_an_edit_takes_the_buttons_away_and_is_made_once(service: Standin) -> None:
    async def story(bot: Bot) -> None:
        keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="1")]])
        sent = await bot.send_message(ADA, "Deploy?", reply_markup=keyboard)
        edited = await bot.edit_message_text("Deploy?\n\nAda: yes", ADA, sent.message_id)
        assert edited.reply_markup is None and edited.edit_date is not None
        with pytest.raises(BadRequest, match="not modified"):
            await bot.edit_message_text("Deploy?\n\nAda: yes", ADA, sent.message_id)
        with pytest.raises(BadRequest, match="edit not found"):
            await bot.edit_message_text("x", ADA, 9999)

    run(service, story)


def test_waits_and_ends_of_chats_are_errors_of_the_library(service: Standin) -> None:
    async def story(bot: Bot) -> None:
        service.act("flood", chat=ADA, left=1, seconds=7)
        await bot.send_message(ADA, "one")
        with pytest.raises(RetryAfter) as slow:
            await bot.send_message(ADA, "two")
        assert slow.value._retry_after.total_seconds() == 7
        await bot.send_message(EVE, "another chat")
        service.act("block", person=EVE)
        with pytest.raises(Forbidden, match="blocked by the user"):
            await bot.send_message(EVE, "x")
        service.act("migrate", chat=GROUP, to=-1002222)
        with pytest.raises(ChatMigrated) as moved:
            await bot.send_message(GROUP, "x")
        assert moved.value.new_chat_id == -1002222
        with pytest.raises(BadRequest, match="Chat not found"):
            await bot.send_message(12, "x")
        service.act("revoke")
        with pytest.raises(InvalidToken):
            await bot.get_me()

    run(service, story)


def test_updates_come_in_order_and_once(service: Standin) -> None:
    async def story(bot: Bot) -> None:
        sent = await bot.send_message(ADA, "Deploy?")
        first = service.act("write", content={"text": "/start ABCD-2345"})["message"]
        service.act("write", content={"text": "yes", "reply_to": sent.message_id})
        service.act("edit", message=first["message_id"], content={"text": "no"})
        query = service.act("press", message=sent.message_id, data="SB-K7QD3M.1")["query"]
        service.act("block")
        updates = await bot.get_updates(timeout=1)
        assert len(updates) == 5 and [update.update_id - updates[0].update_id for update in updates] == [0, 1, 2, 3, 4]
        start, reply, edit, press, member = updates
        assert start.message.entities[0].type == "bot_command" and start.effective_user.id == ADA
        assert reply.message.reply_to_message.from_user.id == bot.id
        assert edit.edited_message.text == "no" and edit.edited_message.edit_date is not None
        assert (press.callback_query.data, press.callback_query.id) == ("SB-K7QD3M.1", query)
        assert member.my_chat_member.new_chat_member.status == "kicked"
        assert await press.callback_query.answer("Noted.")
        with pytest.raises(BadRequest, match="too old"):
            await press.callback_query.answer()
        assert len(await bot.get_updates(offset=reply.update_id, timeout=1)) == 4
        assert await bot.get_updates(offset=member.update_id + 1, timeout=1) == ()

    run(service, story)


def test_two_cannot_ask_and_a_webhook_is_in_the_way(service: Standin) -> None:
    async def story(bot: Bot) -> None:
        held = asyncio.create_task(bot.get_updates(timeout=20))
        while len(service.act("calls", method="getUpdates")["calls"]) < 1:
            await asyncio.sleep(0)
        assert await bot.get_updates(timeout=1) == ()
        with pytest.raises(Conflict, match="terminated by other"):
            await held
        assert await bot.set_webhook("https://hub.test/in", secret_token="s" * 32, allowed_updates=["message"])
        with pytest.raises(Conflict, match="webhook is active"):
            await bot.get_updates()
        service.act("write", content={"text": "x"})
        info = await bot.get_webhook_info()
        assert (info.url, info.pending_update_count) == ("https://hub.test/in", 1)
        with pytest.raises(BadRequest, match="(?i)https"):
            await bot.set_webhook("http://hub.test/in")
        assert await bot.delete_webhook()
        assert (await bot.get_updates(timeout=1))[0].message.text == "x"

    run(service, story)


def test_a_whole_application_of_the_library_runs_on_it(service: Standin) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def heard(update: Update, _: object) -> None:
        await seen.put(update.message.text)
        await update.message.reply_text("Deploy?", reply_markup=InlineKeyboardMarkup(
            [[InlineKeyboardButton("Yes", callback_data="1")]]
        ))

    async def pressed(update: Update, _: object) -> None:
        await update.callback_query.answer()
        await update.callback_query.edit_message_text("Yes.")
        await seen.put(update.callback_query.data)

    async def story() -> None:
        application = Application.builder().token(TOKEN).base_url(f"{service.address}/bot").build()
        application.add_handler(MessageHandler(filters.TEXT, heard))
        application.add_handler(CallbackQueryHandler(pressed))
        async with application:
            await application.start()
            await application.updater.start_polling(timeout=5)
            message = service.act("write", content={"text": "hello"})["message"]["message_id"]
            assert await asyncio.wait_for(seen.get(), 30) == "hello"
            while service.act("shown", message=message + 1)["message"] is None:
                await asyncio.sleep(0)
            service.act("press", message=message + 1, data="1")
            assert await asyncio.wait_for(seen.get(), 30) == "1"
            assert service.act("shown", message=message + 1)["message"]["text"] == "Yes."
            await application.updater.stop()
            await application.stop()

    asyncio.run(asyncio.wait_for(story(), 60))
