// What pages do beyond what a browser does by itself. Every page works without it; it sends nothing anywhere but to its own hub.
(() => {
  "use strict";

  // Times in the reader's own zone; the title keeps what the hub said.
  const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const localTimes = (root) => {
    for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
      const date = new Date(time.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      time.title = time.textContent;
      time.textContent = clock.format(date);
    }
  };

  // A one-time link carries its secret behind the "#", which no server sees. It goes into the form and out of the address bar.
  const takeLink = () => {
    const field = document.querySelector("#link");
    if (!field || location.hash.length < 2) return;
    field.value = decodeURIComponent(location.hash.slice(1));
    history.replaceState(null, "", location.pathname);
    const typed = document.querySelector("#typed");
    if (typed) typed.hidden = true;
    document.querySelector("#enter")?.focus();
  };

  window.addEventListener("hashchange", takeLink);

  // New messages scroll into view for who is at the end already.
  let atEnd = true;
  const isAtEnd = () => window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 160;
  const follow = () => {
    if (atEnd && document.querySelector("[data-follow]")) window.scrollTo(0, document.documentElement.scrollHeight);
  };

  // How much waits, as the last message said, in the navigation.
  const showWaiting = () => {
    const said = document.querySelector("[data-waiting]");
    if (!said) return;
    const waiting = { Inbox: said.dataset.questions, Approvals: said.dataset.approvals };
    for (const sign of document.querySelectorAll("[data-count]")) {
      sign.textContent = waiting[sign.dataset.count];
      sign.hidden = sign.textContent === "0";
    }
  };

  const showLive = (on) => {
    for (const sign of document.querySelectorAll("[data-live]")) {
      sign.classList.toggle("on", on);
      sign.querySelector("[data-live-text]").textContent = on ? "live" : "connecting";
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    localTimes(document);
    takeLink();
    if (document.querySelector("[data-follow]") && !location.hash) follow();
  });
  // Whatever is put into the page later.
  new MutationObserver((changes) => {
    if (!changes.some((change) => change.addedNodes.length)) return;
    localTimes(document);
    follow();
  }).observe(document.documentElement, { childList: true, subtree: true });
  document.addEventListener("scroll", () => { atEnd = isAtEnd(); }, { passive: true });

  document.addEventListener("htmx:sse:after:connection", () => showLive(true));
  document.addEventListener("htmx:sse:after:message", () => { localTimes(document); showWaiting(); });
  document.addEventListener("htmx:sse:error", (event) => {
    showLive(false);
    if (event.detail?.status === 401) location.reload();
  });
  document.addEventListener("htmx:sse:close", () => showLive(false));
  // The session has ended: the page says so by being asked for again.
  document.addEventListener("session-ended", () => location.reload());

  // Ctrl or Cmd and Enter sends what is being written.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    const form = event.target.closest?.("form[data-compose]");
    if (form) { event.preventDefault(); form.requestSubmit(); }
  });
  // "Reply" fills in what the message at the end of the page answers.
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-reply]");
    if (!button) return;
    const form = document.querySelector("form[data-compose]");
    if (!form) return;
    event.preventDefault();
    form.elements.reply_to.value = button.dataset.reply;
    if (form.elements.kind) form.elements.kind.value = button.dataset.kind;
    const note = form.querySelector("[data-replying]");
    if (note) { note.hidden = false; note.querySelector("[data-to]").textContent = button.dataset.name; }
    form.elements.text.focus();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-unreply]");
    if (!button) return;
    const form = button.closest("form");
    form.elements.reply_to.value = "";
    form.querySelector("[data-replying]").hidden = true;
  });
  // The sheet of a phone's navigation closes with Escape.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const sheet = document.querySelector(".tabs details[open]");
    if (sheet) { sheet.open = false; sheet.querySelector("summary").focus(); }
  });
})();
