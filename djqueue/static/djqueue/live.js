/* Live refresh, keys and local times. Every page works without it. It asks for the live part of the page again and
   again, only while somebody may be looking, and never under the hands of who chooses rows or types. */
"use strict";
{
  const EVERY = 5000;
  const PAUSED = "djqueue.paused";
  const live = () => document.getElementById("djq-live");
  let etag = "";
  let loadedAt = Date.now();
  let trouble = "";
  let asking = false;

  const isPaused = () => localStorage.getItem(PAUSED) === "1";

  // Somebody is at work in the live part: it stays as it is.
  const isInHands = (part) => {
    if (part.querySelector("input[name=_selected_action]:checked, #action-toggle:checked")) return true;
    const here = document.activeElement;
    if (here && part.contains(here) && here.matches("input, select, textarea, button")) return true;
    const chosen = document.getSelection();
    return Boolean(chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode));
  };

  async function refresh(wanted) {
    const part = live();
    if (!part || asking || (!wanted && (document.hidden || isPaused() || isInHands(part)))) return;
    asking = true;
    try {
      const headers = { "X-Djqueue-Live": "1" };
      if (etag) headers["If-None-Match"] = etag;
      const answer = await fetch(part.dataset.djqLive || location.href, { headers, credentials: "same-origin", cache: "no-store" });
      trouble = "";
      if (answer.status === 304) {
        loadedAt = Date.now();
      } else if (answer.ok && answer.headers.get("ETag")) {
        put(part, await answer.text());
        etag = answer.headers.get("ETag");
        loadedAt = Date.now();
      } else {
        trouble = answer.redirected ? "logged out" : `no answer (${answer.status})`;
      }
    } catch {
      trouble = "no connection";
    } finally {
      asking = false;
      say();
    }
  }

  function put(part, text) {
    const open = [...part.querySelectorAll("details[open][id]")].map((each) => each.id);
    const focused = document.activeElement && part.contains(document.activeElement) ? document.activeElement : null;
    const href = focused && focused.getAttribute("href");
    part.innerHTML = text;
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (href) part.querySelector(`a[href="${CSS.escape(href)}"]`)?.focus();
    localTimes(part);
    const boxes = part.querySelectorAll("tr input.action-select");
    if (boxes.length && window.Actions && document.getElementById("action-toggle")) window.Actions(boxes);
  }

  function say() {
    const said = document.querySelector(".djq-live-said");
    if (!said) return;
    const age = Math.round((Date.now() - loadedAt) / 1000);
    const words = trouble || (isPaused() ? "paused" : age < 2 ? "live" : `${age} s ago`);
    if (said.textContent !== words) said.textContent = words;
    const pause = document.querySelector(".djq-live-pause");
    pause.setAttribute("aria-pressed", String(isPaused()));
    pause.textContent = isPaused() ? "Go on" : "Pause";
  }

  // Times stand in the reader's zone; the title keeps UTC.
  function localTimes(root) {
    const two = (number) => String(number).padStart(2, "0");
    for (const each of root.querySelectorAll("time.djqueue-moment")) {
      const at = new Date(each.getAttribute("datetime").replace(" ", "T"));
      if (Number.isNaN(at.getTime())) continue;
      const parts = each.querySelectorAll("span");
      const day = `${String(at.getFullYear()).padStart(4, "0")}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
      if (parts.length === 2) [parts[0].textContent, parts[1].textContent] = [day, time];
    }
  }

  const links = () => [...document.querySelectorAll(".djq-nav a[data-djq-key]")];

  function help() {
    let box = document.querySelector(".djq-help");
    if (!box) {
      box = document.createElement("dialog");
      box.className = "djq-help";
      box.setAttribute("aria-label", "Keys");
      const rows = [["/", "search"], ["r", "refresh"], ["?", "these keys"], ...links().map((a) => [`g ${a.dataset.djqKey}`, a.textContent])];
      const list = document.createElement("dl");
      for (const [key, what] of rows) {
        const dt = document.createElement("dt");
        const dd = document.createElement("dd");
        for (const each of key.split(" ")) {
          const kbd = document.createElement("kbd");
          kbd.textContent = each;
          dt.append(kbd, " ");
        }
        dd.textContent = what;
        list.append(dt, dd);
      }
      const close = document.createElement("button");
      close.type = "button";
      close.className = "djq-button";
      close.textContent = "Close";
      close.addEventListener("click", () => box.close());
      box.append(list, close);
      document.body.append(box);
    }
    box.open ? box.close() : box.showModal();
  }

  let afterG = 0;
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, [contenteditable]")) return;
    if (Date.now() - afterG < 1500) {
      const link = links().find((a) => a.dataset.djqKey === event.key);
      afterG = 0;
      if (link) {
        event.preventDefault();
        link.click();
        return;
      }
    }
    if (event.key === "g") {
      afterG = Date.now();
    } else if (event.key === "/") {
      const search = document.querySelector("#searchbar, .djq-search");
      if (search) {
        event.preventDefault();
        search.focus();
      }
    } else if (event.key === "r") {
      live() ? refresh(true) : location.reload();
    } else if (event.key === "?") {
      help();
    }
  }

  function start() {
    localTimes(document);
    const bar = document.querySelector(".djq-live-bar");
    if (!bar) return;
    document.addEventListener("keydown", key);
    bar.hidden = false;
    bar.querySelector(".djq-help-open").addEventListener("click", help);
    const parts = [".djq-live-said", ".djq-live-pause", ".djq-live-now"].map((each) => bar.querySelector(each));
    if (!live()) {
      for (const each of parts) each.hidden = true;
      return;
    }
    parts[1].addEventListener("click", () => {
      localStorage.setItem(PAUSED, isPaused() ? "0" : "1");
      say();
      refresh(false);
    });
    parts[2].addEventListener("click", () => refresh(true));
    document.addEventListener("visibilitychange", () => refresh(false));
    setInterval(() => refresh(false), EVERY);
    setInterval(say, 1000);
    say();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
}
