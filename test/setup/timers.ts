/**
 * Records where timers were created, so that a report of a leaked timer can show the place.
 *
 * Owns: the list of timers created by the global `setTimeout` and `setInterval` since `traceTimers()`.
 *
 * 1. Timers behave as without tracing; the list holds them weakly and keeps no timer alive.
 * 2. Timers created through `node:timers` are not traced; Node's own count includes them.
 */

/** Timers that libraries leave behind and that end by themselves. We cannot stop them, so they are no leak. */
export const TOLERATED_TIMERS: readonly { madeIn: string; reason: string }[] = [
  {
    madeIn: "/node_modules/redis-parser/",
    reason: "its shared buffer shrinks by an interval after a large reply; no call ends it sooner",
  },
  {
    madeIn: "/node_modules/ioredis/built/connectors/AbstractConnector",
    reason: "disconnect() of a stream that is closed already waits out disconnectTimeout (2 s)",
  },
];

/** Stack frames recorded per timer. Vitest's limit of 100 would be too expensive here. */
const FRAMES_KEPT = 12;

interface TracedTimer {
  timer: WeakRef<NodeJS.Timeout>;
  madeAt: Error;
}

let traced: TracedTimer[] = [];
let pruneAtLength = 1_000;
let isTracing = false;

/** Replaces the two globals with traced ones, once per process; each of several files in one process calls it. */
export function traceTimers(): void {
  if (isTracing) return;
  isTracing = true;
  for (const name of ["setTimeout", "setInterval"] as const) {
    const make = globalThis[name];
    const tracing = new Proxy(make, {
      apply(target, self, args) {
        const timer: NodeJS.Timeout = Reflect.apply(target, self, args);
        const { stackTraceLimit } = Error;
        Error.stackTraceLimit = FRAMES_KEPT;
        remember(timer, new Error());
        Error.stackTraceLimit = stackTraceLimit;
        return timer;
      },
    });
    Reflect.set(globalThis, name, tracing);
  }
}

/** Returns the stack traces of our timers that keep the process alive now, and the number of tolerated ones. */
export function liveTimers(): { ours: string[]; tolerated: number } {
  const stacks = traced.filter(isLive).map(({ madeAt }) => madeAt.stack ?? "");
  const ours = stacks.filter((stack) => !TOLERATED_TIMERS.some(({ madeIn }) => stack.includes(madeIn)));
  return { ours, tolerated: stacks.length - ours.length };
}

function remember(timer: NodeJS.Timeout, madeAt: Error): void {
  traced.push({ timer: new WeakRef(timer), madeAt });
  if (traced.length < pruneAtLength) return;
  // Unreferenced timers stay in the list: they may be referenced again.
  traced = traced.filter(({ timer: held }) => isPending(held.deref()));
  pruneAtLength = traced.length * 2 + 1_000;
}

function isLive({ timer }: TracedTimer): boolean {
  const held = timer.deref();
  return isPending(held) && held.hasRef();
}

/** Returns whether the timer will fire again and is not cleared. Only an undocumented field of Node says so. */
function isPending(timer: NodeJS.Timeout | undefined): timer is NodeJS.Timeout {
  return timer !== undefined && Reflect.get(timer, "_destroyed") !== true;
}
