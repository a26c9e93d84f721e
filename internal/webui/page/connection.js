// Requests to the daemon and its event stream. Events are read with fetch because EventSource cannot send a token.

const key = "loaderd-token";
const minRetryDelay = 1000; // milliseconds
const maxRetryDelay = 5000;
const eventTimeout = 10000; // without data for this long, the connection counts as lost

export const token = {
  get: () => sessionStorage.getItem(key),
  set: (t) => sessionStorage.setItem(key, t),
  forget: () => sessionStorage.removeItem(key),
};

// login exchanges the code in the page's link for a token. It removes the code from the address first, because a code
// works only once.
export async function login() {
  const code = new URLSearchParams(location.hash.slice(1)).get("login");
  if (!code) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    token.set((await post("api/login", { code })).token);
  } catch { // the page then prompts for a token
  }
}

addEventListener("hashchange", () => { // a login link was opened in this tab
  if (location.hash.startsWith("#login=")) location.reload();
});

// Problem is an error that the daemon returned, or a missing response (status 0).
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
    throw new Problem(0, { message: "The daemon cannot be reached.", do: "Check that it is running and that this browser can connect to it." });
  }
  if (answer.ok) return answer;
  const error = await answer.json().catch(() => ({ message: `The daemon returned status ${answer.status}.` }));
  throw new Problem(answer.status, error);
}

// get requests a JSON document. Empty values of query are omitted.
export async function get(path, query = {}) {
  const values = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== "" && v !== null && v !== undefined));
  const answer = await request(values.size ? `${path}?${values}` : path);
  return answer.json();
}

// act requests an action.
export async function act(name, body = {}) {
  return post(`api/action/${name}`, body);
}

async function post(path, body) {
  const answer = await request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  return answer.json();
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// follow reads the event stream and reconnects forever. It calls onStatus(status) for each event and
// onDisconnect(problem) when the connection is lost. onDenied(problem) returns a promise that resolves when a new token
// is set.
export async function follow({ onStatus, onDisconnect, onDenied }) {
  let delay = minRetryDelay;
  for (;;) {
    const abort = new AbortController();
    let timer;
    const restartTimer = () => {
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), eventTimeout);
    };
    try {
      restartTimer();
      const answer = await request("api/events", { signal: abort.signal });
      for await (const event of events(answer.body, restartTimer)) {
        delay = minRetryDelay;
        if (event.name === "status") onStatus(event.data);
        else throw new Problem(event.data.reason === "INVALID_TOKEN" ? 401 : event.data.reason === "FORBIDDEN" ? 403 : 503, event.data);
      }
      onDisconnect(new Problem(0, { message: "The daemon closed the connection." }));
    } catch (e) {
      const problem = e instanceof Problem ? e : new Problem(0, { message: "The connection to the daemon was lost." });
      if (problem.status === 401 || problem.status === 403) {
        clearTimeout(timer);
        await onDenied(problem);
        continue;
      }
      onDisconnect(problem);
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
    await pause(delay);
    delay = Math.min(delay * 1.5, maxRetryDelay);
  }
}

// events yields the server-sent events of a response body. It calls onData for each chunk.
async function* events(body, onData) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onData();
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
