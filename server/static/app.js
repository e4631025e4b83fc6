// Two comforts; every page works without them. Copy buttons, and following a run that goes on.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  if (!source) return;
  const say = (word) => {
    const before = button.textContent;
    button.textContent = word;
    setTimeout(() => { button.textContent = before; }, 1500);
  };
  try {
    await navigator.clipboard.writeText(source.textContent);
    say("copied");
  } catch {
    getSelection().selectAllChildren(source);
    say("selected");
  }
});

for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;

function scheduleRefresh() {
  const main = document.querySelector("main[data-refresh-secs]");
  if (main) setTimeout(() => refresh().then(scheduleRefresh), Number(main.dataset.refreshSecs) * 1000);
}

// Reads the page again; false when that had to wait.
async function refresh() {
  // Not under the hands of somebody who is filling in a filter or selecting text.
  const busy = document.hidden || document.activeElement?.closest("form") || String(getSelection());
  if (busy) return false;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return false;
    const text = await answer.text();
    const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    const open = new Set([...document.querySelectorAll("main details[open][id]")].map((d) => d.id));
    for (const details of fresh.querySelectorAll("details[id]")) details.open ||= open.has(details.id);
    document.querySelector("main").replaceWith(document.adoptNode(fresh));
    for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
    return true;
  } catch {
    // The server is away for a moment; the next round asks again.
    return false;
  }
}

// The server says when a run has come further; the page is then read again, at most every two
// seconds. Where it cannot say so, the page is read again every few seconds.
function follow() {
  const main = document.querySelector("main[data-events]");
  if (!main || !window.EventSource) return scheduleRefresh();
  const source = new EventSource(main.dataset.events);
  let isWaiting = false;
  const soon = () => {
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(async () => {
      isWaiting = false;
      if (!(await refresh())) soon();
    }, 2000);
  };
  let isFirst = true;
  source.addEventListener("progress", () => {
    if (!isFirst) soon();
    isFirst = false;
  });
  source.addEventListener("sealed", () => {
    source.close();
    soon();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) scheduleRefresh();
  });
}

follow();
