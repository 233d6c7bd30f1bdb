/**
 * One direction of one proxied connection.
 *
 * Owns: the bytes between `source` and `target` that are on their way. Its neighbour `proxy.ts` owns the sockets.
 *
 * 1. Bytes leave in the order in which they came, each not before its arrival plus the latency of that moment.
 * 2. While the gate is `held` nothing leaves, the end of the connection included; while it is `lost` bytes vanish.
 */
import type { Socket } from "node:net";

/** What a proxy's faults have in common for all of its connections. */
export interface Gate {
  mode: "open" | "held" | "lost";
  latencyMs: number;
  /** Called after every change of `mode`. */
  changed: Set<() => void>;
}

/** Control over one direction. */
export interface Relay {
  hasLostBytes(): boolean;
  /** What has come and not left. */
  held(): string;
  /** The source has ended: the target is ended as soon as everything has left. */
  finish(): void;
  /** Forgets everything, at once. Idempotent. */
  stop(): void;
}

interface Delayed {
  chunk: Buffer;
  dueMs: number;
}

/**
 * Passes bytes from `source` to `target`; `swallows` is asked once for each chunk, true means it is not passed on.
 * `passed` is told of each chunk that was.
 */
export function relay(
  source: Socket,
  target: Socket,
  gate: Gate,
  { swallows = (): boolean => false, passed = () => {} } = {},
): Relay {
  const queue: Delayed[] = [];
  let timer: NodeJS.Timeout | undefined;
  let lost = false;
  let ended = false;
  let stopped = false;

  const stop = () => {
    stopped = true;
    queue.length = 0;
    clearTimeout(timer);
    gate.changed.delete(pump);
  };
  const waitForRoom = () => {
    const resume = () => {
      target.off("drain", resume);
      target.off("close", resume);
      source.resume();
    };
    source.pause();
    target.on("drain", resume);
    target.on("close", resume);
  };
  const pump = () => {
    clearTimeout(timer);
    if (stopped || gate.mode === "held") return;
    if (gate.mode === "lost") {
      lost ||= queue.length > 0;
      queue.length = 0;
      return;
    }
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      const waitMs = next.dueMs - performance.now();
      if (waitMs > 0) {
        timer = setTimeout(pump, waitMs);
        return;
      }
      queue.shift();
      // What comes for a target that is gone is read all the same: a paused source would never see its own end.
      if (!target.destroyed && !target.write(next.chunk)) waitForRoom();
      passed();
    }
    if (ended) {
      stop();
      target.end();
    }
  };
  gate.changed.add(pump);
  source.on("data", (chunk: Buffer) => {
    if (stopped || swallows()) return;
    queue.push({ chunk, dueMs: performance.now() + gate.latencyMs });
    pump();
  });
  return {
    hasLostBytes: () => lost,
    held: () => Buffer.concat(queue.map(({ chunk }) => chunk)).toString(),
    finish() {
      ended = true;
      pump();
    },
    stop,
  };
}
