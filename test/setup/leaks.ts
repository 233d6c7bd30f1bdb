/**
 * Counts the resources that keep a process alive: sockets, servers, timers, child processes, worker threads, watchers.
 *
 * Owns: the list of referenced worker threads started since `watchThreadsAndSockets()`. `leak-check.ts` decides when to check.
 *
 * 1. Only referenced handles count; an unreferenced handle does not keep the process alive and is not listed.
 * 2. Timers that a library leaves behind by design do not count; `timers.ts` lists them.
 * 3. One-off requests (a file read, a DNS lookup) are not resources: they end by themselves.
 */
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { Worker } from "node:worker_threads";
import { liveTimers } from "./timers.ts";

/** Number of open resources of each kind, by Node's name of the kind (`TCPSocketWrap`, `Timeout`, ...). */
export type Resources = ReadonlyMap<string, number>;

const threads = new Set<Worker>();
let isWatching = false;

/** Errors whose stacks show where client sockets were created. */
const socketsMadeAt = new WeakMap<object, Error>();

/** Starts to count worker threads, which Node's list omits, and to record where sockets are created. Later calls do nothing. */
export function watchThreadsAndSockets(): void {
  if (isWatching) return;
  isWatching = true;
  subscribe("net.client.socket", (message) => {
    if (typeof message !== "object" || message === null || !("socket" in message)) return;
    if (typeof message.socket === "object" && message.socket !== null)
      socketsMadeAt.set(message.socket, new Error());
  });
  subscribe("worker_threads", (message) => {
    const worker = typeof message === "object" && message !== null && "worker" in message && message.worker;
    if (!(worker instanceof Worker)) return;
    threads.add(worker);
    worker.once("exit", () => threads.delete(worker));
    const { ref, unref } = worker;
    worker.ref = () => {
      // `terminate` calls it too, also for a thread that has ended: its id is -1.
      if (worker.threadId !== -1) threads.add(worker);
      ref.call(worker);
    };
    worker.unref = () => {
      threads.delete(worker);
      unref.call(worker);
    };
  });
}

/** Counts the resources that are open now. */
export function aliveResources(): Resources {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    if (ONE_OFF.test(kind)) continue;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  const timers = (counts.get("Timeout") ?? 0) - liveTimers().tolerated;
  counts.set("Timeout", timers);
  if (threads.size > 0) counts.set("WorkerThread", threads.size);
  return counts;
}

/** Returns the resources beyond `baseline`, one entry such as `2 x Timeout` per kind; empty if nothing leaked. */
export function leakedSince(baseline: Resources): string[] {
  return [...aliveResources()].flatMap(([kind, count]) => {
    const extra = count - (baseline.get(kind) ?? 0);
    return extra > 0 ? [`${extra} x ${kind}`] : [];
  });
}

/** Describes all open handles in readable form: addresses, process ids, where a timer was created. */
export function describeAlive(): string[] {
  // Only this undocumented function returns handles as objects; without it only the counts are reported.
  const list: unknown = Reflect.get(process, "_getActiveHandles");
  const handles: unknown = typeof list === "function" ? list.call(process) : [];
  const timers = liveTimers().ours.map((stack) => `Timeout made${firstFrames(stack)}`);
  return Array.isArray(handles) ? [...handles.map(describe), ...timers] : timers;
}

const ONE_OFF = /^(Immediate|CloseReq|.*Req(Callback|Wrap)?|FSReqPromise)$/;

function describe(handle: unknown): string {
  if (typeof handle !== "object" || handle === null) return String(handle);
  const kind = handle.constructor.name;
  if ("pid" in handle && "spawnargs" in handle)
    return `${kind} pid ${handle.pid}: ${String(handle.spawnargs)}`;
  if ("remotePort" in handle) {
    const { localPort, remoteAddress, remotePort, destroyed } = handle as Socket;
    const stack = socketsMadeAt.get(handle)?.stack;
    const madeAt = stack === undefined ? "" : ` made${firstFrames(stack, "node:net")}`;
    // A destroyed socket is listed if its reset was refused: it never closes.
    const peer = destroyed
      ? "(destroyed, not closed)"
      : remotePort === undefined
        ? "(pipe or standard stream)"
        : `${localPort} -> ${remoteAddress}:${remotePort}`;
    return `${kind} ${peer}${madeAt}`;
  }
  if ("address" in handle && typeof handle.address === "function")
    return `${kind} on ${addressOf(handle.address())}`;
  return kind;
}

/** Returns the four frames that lead to the call, after the two lines of the tracing itself and the frames of `module`. */
function firstFrames(stack: string, module?: string): string {
  const lines = stack.split("\n");
  const last = module === undefined ? -1 : lines.findLastIndex((line) => line.includes(module));
  const first = Math.max(2, last + 1);
  return lines.slice(first, first + 4).join("\n  ");
}

function addressOf(address: unknown): string {
  return typeof address === "string" ? address : JSON.stringify(address);
}
