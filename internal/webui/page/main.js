// Entry point of the live page. Passes the status, once per second, and the history to the sections.
import { startEvents, updateEvents } from "./events.js";
import { updateActions } from "./actions.js";
import { follow, get, login } from "./connection.js";
import { updateDaemons } from "./daemons.js";
import { updateDead } from "./dead.js";
import { byId, setAttribute, setText, setVisible } from "./dom.js";
import { updateFilters } from "./filters.js";
import { updateFlow } from "./flow.js";
import { clock } from "./format.js";
import { startHistory, updateHistory } from "./history.js";
import { Inspector } from "./inspector.js";
import { startRanks, updateRanks } from "./ranks.js";
import { updateSchedule } from "./schedule.js";
import { updateSkipped } from "./skipped.js";
import { updateSources } from "./sources.js";
import { askForToken, startToken } from "./token.js";
import { updateVerdict } from "./verdict.js";

const historyInterval = 10000; // milliseconds
const shortHistoryInterval = 2000; // while the history is short
const shortHistory = 30; // points

let latest = null;
let requestedAt = 0; // time of the last history request
let interval = shortHistoryInterval;

await login();
startToken();
startHistory();
startEvents();
startRanks();
const inspector = new Inspector(byId("inspector"), () => latest?.may ?? [], () => latest);

function onStatus(s) {
  latest = s;
  setVisible(byId("away"), false);
  setAttribute(document.documentElement, "data-away", null);
  for (const update of [updateVerdict, updateFlow, updateSources, updateRanks, updateSchedule, updateSkipped, updateFilters, updateDead, updateEvents, updateDaemons, updateActions, () => inspector.update()]) {
    try {
      update(s);
    } catch (e) { // keep updating the other sections
      reportError(e);
    }
  }
  if (Date.now() - requestedAt > interval) loadHistory();
  setAttribute(document.documentElement, "data-updates", Number(document.documentElement.dataset.updates ?? 0) + 1);
}

async function loadHistory() {
  requestedAt = Date.now();
  try {
    const history = await get("api/history");
    interval = (history.times?.at ?? []).length < shortHistory ? shortHistoryInterval : historyInterval;
    updateHistory(history);
  } catch (problem) {
    setVisible(byId("history-note"), true);
    setText(byId("history-note"), `Cannot load the history: ${problem.message}`);
  }
}

// onDisconnect shows the problem and the time of the displayed values.
function onDisconnect(problem) {
  const figures = latest ? `The values are from ${clock(latest.time)}.` : "";
  setText(byId("away"), `${problem.message} ${problem.advice ?? ""} ${figures} This page reconnects automatically.`.replace(/\s+/g, " "));
  setVisible(byId("away"), true);
  setAttribute(document.documentElement, "data-away", "");
  requestedAt = 0;
}

follow({ onStatus, onDisconnect, onDenied: askForToken });
