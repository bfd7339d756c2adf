// The one way to the server that a live page comes from, below the address that the page itself has.

const BUSY = 300; // milliseconds until a busy server is asked again

/** What the server has at a path, or answers to a question in JSON: in { status }, and in { body } where it has something. */
async function request(path, question) {
  const sent = question && { method: "POST", headers: { "Content-Type": "application/json" }, body: question };
  for (;;) {
    const response = await fetch(path, sent).catch(() => null);
    if (response?.status === 503) {
      await new Promise((resolve) => setTimeout(resolve, BUSY));
      continue;
    }
    const body = await response?.json().catch(() => null);
    return { status: response?.status ?? 0, body };
  }
}
