// Stream: the live connection. It tells what comes and whether it lives; the
// browser itself comes back after a break, except where the server refused it.

const names = ["hello", "state", "change", "overrides"];

// silentAfter is how long nothing may come before the line counts as broken:
// there is a state every second.
const silentAfter = 6000;
const againAfter = 3000;

// follow calls handlers by event name, and handlers.alive(bool) when the line
// breaks or is back.
export function follow(url, handlers) {
  let source, heard = 0, retry = 0;

  function open() {
    clearTimeout(retry);
    source?.close();
    source = new EventSource(url);
    for (const name of names) {
      source.addEventListener(name, (e) => {
        heard = performance.now();
        handlers.alive(true);
        handlers[name](JSON.parse(e.data));
      });
    }
    source.addEventListener("error", () => {
      handlers.alive(false);
      // Closed means refused, by status or type: no browser tries that again.
      if (source.readyState === EventSource.CLOSED) retry = setTimeout(open, againAfter);
    });
    heard = performance.now();
  }

  open();
  setInterval(() => {
    if (performance.now() - heard < silentAfter) return;
    handlers.alive(false);
    open();
  }, 1000);
}
