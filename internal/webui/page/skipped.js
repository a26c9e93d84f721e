// Skipped documents by reason.
import { byId, setVisible, table } from "./dom.js";
import { count } from "./format.js";

let all;

export function updateSkipped(s) {
  const skipped = s.skipped ?? [];
  setVisible(byId("skipped-section"), skipped.length > 0);
  if (!skipped.length) return;
  if (!all) {
    all = table("Skipped documents", columns, (x) => x.reason);
    byId("skipped").append(all.node);
  }
  all.update(skipped);
}

const columns = [
  { name: "Reason", left: true, text: (x) => x.reason },
  { name: "Documents", text: (x) => count(x.documents) },
  { name: "Meaning", left: true, text: (x) => x.text },
  { name: "What to do", left: true, text: (x) => x.do },
];
