/**
 * A TCP proxy in front of a port of 127.0.0.1, with the faults of real networks.
 *
 * Owns: every connection through it. It never touches the server behind it.
 *
 * 1. Bytes arrive complete and in order unless a fault is active; latency delays and never reorders.
 * 2. A connection that lost bytes is never used again: it is cut, at once or when the black hole ends.
 * 3. Every fault is counted, so that a test can assert that it really happened.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { closeAtEnd } from "./cleanup.ts";
import { type Gate, relay } from "./relay.ts";
import { resetSocket } from "./reset-socket.ts";

/** Counts since the proxy was started. */
export interface ProxyCounts {
  /** Connections accepted. */
  accepted: number;
  /** Connections cut by `cutAll`, `refuse`, by a swallowed reply or at the end of a black hole. */
  cut: number;
  /** Connections refused. */
  refused: number;
  /** Replies that the server sent and the client never received. */
  swallowed: number;
}

/** A running proxy. */
export interface Proxy {
  readonly port: number;
  readonly counts: Readonly<ProxyCounts>;
  /** Connections open at this moment. */
  readonly open: number;
  /** Replies written to the clients' sockets so far. */
  readonly passed: number;
  /** Bytes to the server that a pause holds back at this moment. */
  readonly held: string;
  /** Holds back all bytes in both directions; `resume` delivers them. */
  pause(): void;
  /** Ends a pause and delivers the bytes held back. */
  resume(): void;
  /** Drops all bytes in both directions; connections stay open and new ones are accepted. */
  blackhole(): void;
  /** Resets every connection, and each new one at once. */
  refuse(): void;
  /** Ends a black hole or a refusal: cuts connections that lost bytes and keeps the others. */
  heal(): void;
  /** Drops all further bytes of the connections open now and keeps them open, as if the host were gone. New ones work. */
  strand(): void;
  /** Resets every connection at once. New ones are accepted. */
  cutAll(): void;
  /**
   * Drops every nth reply and cuts its connection: the command ran, but its answer never arrives. A reply is the result of
   * one read from the server, so pipelined replies may be lost together. Replies are counted from this call on, over all
   * connections and with handshakes: n below 5 prevents some clients from connecting. `undefined` ends the fault.
   */
  swallowEveryNthReply(n: number | undefined): void;
  /** Drops only the nth reply from now on and cuts its connection; resolves when it is lost. */
  swallowNthReply(n: number): Promise<void>;
  /** Delays bytes by `ms` in each direction; 0 ends it. */
  setLatency(ms: number): void;
  /** Resets all connections and closes the port. Idempotent. */
  stop(): Promise<void>;
}

/** Starts a proxy in front of `targetPort`; the end of the test (or file) stops it. */
export async function startProxy(targetPort: number): Promise<Proxy> {
  const counts: ProxyCounts = { accepted: 0, cut: 0, refused: 0, swallowed: 0 };
  const links = new Set<Link>();
  let gate: Gate = { mode: "open", latencyMs: 0, changed: new Set() };
  const stranded: Gate[] = [];
  let everyNth: number | undefined;
  let onSwallowed = () => {};
  let replies = 0;
  let passed = 0;
  let refusing = false;

  const swallowEvery = (n: number | undefined, swallowed = () => {}) => {
    [everyNth, replies, onSwallowed] = [n, 0, swallowed];
  };
  const cut = (link: Link) => {
    if (links.delete(link)) counts.cut += 1;
    link.reset();
  };
  const server = createServer({ noDelay: true }, (client) => {
    if (refusing) {
      counts.refused += 1;
      client.on("error", () => {});
      client.resetAndDestroy();
      return;
    }
    counts.accepted += 1;
    const link = openLink(client, targetPort, gate, {
      closed: () => void links.delete(link),
      passed: () => {
        passed += 1;
      },
      swallows: () => {
        replies += 1;
        if (everyNth === undefined || replies % everyNth !== 0) return false;
        counts.swallowed += 1;
        onSwallowed();
        cut(link);
        return true;
      },
    });
    links.add(link);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a TCP server without a port");

  const switchTo = (mode: Gate["mode"], which = gate) => {
    which.mode = mode;
    for (const wakeUp of [...which.changed]) wakeUp();
  };
  const proxy: Proxy = {
    port: address.port,
    counts,
    get open() {
      return links.size;
    },
    get passed() {
      return passed;
    },
    get held() {
      return [...links].map((link) => link.heldRequests()).join("");
    },
    pause: () => switchTo("held"),
    resume: () => switchTo("open"),
    blackhole: () => switchTo("lost"),
    refuse() {
      refusing = true;
      proxy.cutAll();
    },
    heal() {
      refusing = false;
      switchTo("open");
      for (const link of [...links]) if (link.hasLostBytes()) cut(link);
    },
    strand() {
      switchTo("lost");
      stranded.push(gate);
      gate = { ...gate, mode: "open", changed: new Set() };
    },
    cutAll() {
      for (const link of [...links]) cut(link);
    },
    swallowEveryNthReply: (n) => swallowEvery(n),
    swallowNthReply(n) {
      return new Promise((resolve) => {
        swallowEvery(n, () => {
          swallowEvery(undefined);
          resolve();
        });
      });
    },
    setLatency(ms) {
      gate.latencyMs = ms;
    },
    async stop() {
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      // Releases stranded connections, some of whose clients may have left.
      for (const old of stranded) switchTo("open", old);
      proxy.cutAll();
      await closed;
    },
  };
  closeAtEnd(() => proxy.stop());
  return proxy;
}

/** A client's connection and the matching connection to the server. */
interface Link {
  hasLostBytes(): boolean;
  heldRequests(): string;
  reset(): void;
}

interface LinkEvents {
  closed(): void;
  /** Called for each reply that is passed to the client. */
  passed(): void;
  /** Called for each reply; returns true if the reply is lost and the link is cut. */
  swallows(): boolean;
}

function openLink(client: Socket, targetPort: number, gate: Gate, events: LinkEvents): Link {
  const upstream = connect({ port: targetPort, host: "127.0.0.1", noDelay: true });
  const requests = relay(client, upstream, gate);
  const replies = relay(upstream, client, gate, events);
  const reset = () => {
    requests.stop();
    replies.stop();
    resetSocket(client);
    upstream.destroy();
  };
  for (const socket of [client, upstream]) {
    // An error of one side ends the link. Tests do not need to know which side, or which error.
    socket.on("error", () => {});
    socket.on("close", () => {
      events.closed();
      requests.finish();
      replies.finish();
    });
  }
  return {
    hasLostBytes: () => requests.hasLostBytes() || replies.hasLostBytes(),
    heldRequests: requests.held,
    reset,
  };
}
