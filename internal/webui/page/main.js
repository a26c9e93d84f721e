// The page: hears how the run does once a second, and how it went now and then, and hands both to the sections.
import { startEvents, updateEvents } from "./events.js";
import { updateActions } from "./actions.js";
import { follow, get, login } from "./connection.js";
import { updateDaemons } from "./daemons.js";
import { updateDead } from "./dead.js";
import { byId, setAttribute, setText, setVisible } from "./dom.js";
import { updateFlow } from "./flow.js";
import { clock } from "./format.js";
import { startHistory, updateHistory } from "./history.js";
import { Inspector } from "./inspector.js";
import { updateRanks } from "./ranks.js";
import { updateSkipped } from "./skipped.js";
import { updateSources } from "./sources.js";
import { askForToken, startToken } from "./token.js";
import { updateVerdict } from "./verdict.js";

const historyEvery = 10000; // milliseconds
const soonEvery = 2000; // while there is little of it
const little = 30; // points

let latest = null;
let asked = 0; // when history was asked for last
let every = soonEvery;

await login();
startToken();
startHistory();
startEvents();
const inspector = new Inspector(byId("inspector"), () => latest?.may ?? [], () => latest);

function status(s) {
  latest = s;
  setVisible(byId("away"), false);
  setAttribute(document.documentElement, "data-away", null);
  for (const update of [updateVerdict, updateFlow, updateSources, updateRanks, updateSkipped, updateDead, updateEvents, updateDaemons, updateActions, () => inspector.update()]) {
    try {
      update(s);
    } catch (e) { // the other sections still tell what they know
      reportError(e);
    }
  }
  if (Date.now() - asked > every) loadHistory();
  setAttribute(document.documentElement, "data-updates", Number(document.documentElement.dataset.updates ?? 0) + 1);
}

async function loadHistory() {
  asked = Date.now();
  try {
    const history = await get("api/history");
    every = (history.times?.at ?? []).length < little ? soonEvery : historyEvery;
    updateHistory(history);
  } catch (problem) {
    setVisible(byId("history-note"), true);
    setText(byId("history-note"), `How the run went cannot be told: ${problem.message}`);
  }
}

// away says that no figures come, and of when those are that still stand there.
function away(problem) {
  const figures = latest ? `The figures are of ${clock(latest.time)}.` : "";
  setText(byId("away"), `${problem.message} ${problem.advice ?? ""} ${figures} This page goes on by itself when it answers.`.replace(/\s+/g, " "));
  setVisible(byId("away"), true);
  setAttribute(document.documentElement, "data-away", "");
  asked = 0;
}

follow({ status, away, denied: askForToken });
