// What the page hears from its daemon, and asks it. Events come by fetch and not by EventSource, which sends no token.

const key = "loaderd-token";
const first = 1000; // milliseconds until it is tried again, and at most
const longest = 5000;
const silence = 10000; // without an event the connection is lost

export const token = {
  get: () => sessionStorage.getItem(key),
  set: (t) => sessionStorage.setItem(key, t),
  forget: () => sessionStorage.removeItem(key),
};

// login exchanges the code of the page's link for a token. The code leaves the address at once: it opens the page once.
export async function login() {
  const code = new URLSearchParams(location.hash.slice(1)).get("login");
  if (!code) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    token.set((await post("api/login", { code })).token);
  } catch { // the page asks for a token then
  }
}

addEventListener("hashchange", () => { // the link was opened in this tab
  if (location.hash.startsWith("#login=")) location.reload();
});

// Problem is an error that the daemon answered with, or that there was no answer.
export class Problem extends Error {
  constructor(status, { reason = "", message = "", do: advice = "" }) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.advice = advice;
  }
}

function headers() {
  const t = token.get();
  return t ? { Authorization: `Bearer ${t}` } : {};
}

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options, headers: { ...headers(), ...options.headers } });
  } catch {
    throw new Problem(0, { message: "The daemon cannot be reached.", do: "Look whether it runs, and at the way to it." });
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({ message: `The daemon answered ${answer.status}.` }));
  throw new Problem(answer.status, said);
}

// get asks for a document; query has the values of keys that are not empty.
export async function get(path, query = {}) {
  const values = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== "" && v !== null && v !== undefined));
  const answer = await request(values.size ? `${path}?${values}` : path);
  return answer.json();
}

// act asks for an action.
export async function act(name, body = {}) {
  return post(`api/action/${name}`, body);
}

async function post(path, body) {
  const answer = await request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  return answer.json();
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// follow hears events for ever: status(document) for each; away(problem) when they do not come; denied(problem) returns a promise of another token.
export async function follow({ status, away, denied }) {
  let wait = first;
  for (;;) {
    const abort = new AbortController();
    let timer;
    const listen = () => {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), silence);
    };
    try {
      listen();
      const answer = await request("api/events", { signal: abort.signal });
      for await (const event of events(answer.body, listen)) {
        wait = first;
        if (event.name === "status") status(event.data);
        else throw new Problem(event.data.reason === "INVALID_TOKEN" ? 401 : event.data.reason === "FORBIDDEN" ? 403 : 503, event.data);
      }
      away(new Problem(0, { message: "The daemon has ended the connection." }));
    } catch (e) {
      const problem = e instanceof Problem ? e : new Problem(0, { message: "The connection to the daemon was lost." });
      if (problem.status === 401 || problem.status === 403) {
        clearTimeout(timer);
        await denied(problem);
        continue;
      }
      away(problem);
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
    await pause(wait);
    wait = Math.min(wait * 1.5, longest);
  }
}

// events reads server-sent events.
async function* events(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = { name: "message", data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("event: ")) event.name = line.slice(7);
        if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
      }
      text = text.slice(end + 2);
      yield event;
    }
  }
}
