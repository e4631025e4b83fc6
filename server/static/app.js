// Two comforts; every page works without them. Copy buttons, and reading a running page again.
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
  if (main) setTimeout(refresh, Number(main.dataset.refreshSecs) * 1000);
}

async function refresh() {
  // Not under the hands of somebody who is filling in a filter or selecting text.
  const busy = document.hidden || document.activeElement?.closest("form") || String(getSelection());
  if (!busy) {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        const text = await answer.text();
        const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
        const open = new Set([...document.querySelectorAll("main details[open][id]")].map((d) => d.id));
        for (const details of fresh.querySelectorAll("details[id]")) details.open ||= open.has(details.id);
        document.querySelector("main").replaceWith(document.adoptNode(fresh));
        for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
      }
    } catch {
      // The server is away for a moment; the next round asks again.
    }
  }
  scheduleRefresh();
}

scheduleRefresh();
