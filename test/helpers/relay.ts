/**
 * Relays one direction of a proxied connection.
 *
 * Owns: the bytes in transit from `source` to `target`. `proxy.ts` owns the sockets.
 *
 * 1. Bytes leave in the order of their arrival, each no earlier than its arrival plus the latency at that time.
 * 2. While the gate is `held`, no byte leaves, nor the end of the connection; while it is `lost`, bytes are dropped.
 */
import type { Socket } from "node:net";

/** State of a proxy's faults, shared by its connections. */
export interface Gate {
  mode: "open" | "held" | "lost";
  latencyMs: number;
  /** Called after every change of `mode`. */
  changed: Set<() => void>;
}

/** Control over one direction. */
export interface Relay {
  hasLostBytes(): boolean;
  /** Returns the bytes that have arrived and not left. */
  held(): string;
  /** Called when the source has ended: ends the target as soon as all bytes have left. */
  finish(): void;
  /** Drops all bytes at once. Idempotent. */
  stop(): void;
}

interface Delayed {
  chunk: Buffer;
  dueMs: number;
}

/**
 * Passes bytes from `source` to `target`. Calls `swallows` once per chunk; a chunk is dropped if it returns true.
 * Calls `passed` for each chunk that was passed on.
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
      // The source is read even if the target is gone: a paused source would never see its own end.
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
