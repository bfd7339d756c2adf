// The one way to the server that a live page comes from, below the address that the page itself has.

const BUSY = 300; // milliseconds until a busy server is asked again

/** What the server has at a path, as JSON: in { status }, and in { found } where it has something. */
async function request(path, body) {
  const sent = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  for (;;) {
    const response = await fetch(path, sent).catch(() => null);
    if (response?.status === 503) {
      await new Promise((resolve) => setTimeout(resolve, BUSY));
      continue;
    }
    const found = await response?.json().catch(() => null);
    return { status: response?.status ?? 0, found };
  }
}
