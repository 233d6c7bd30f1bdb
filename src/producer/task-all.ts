/**
 * Many tasks at once: as many side by side as the parent has room for, the others as room comes.
 *
 * 1. Tasks begin in their order; replies come back in it.
 * 2. A parent without room is not asked again before something has ended: its doorbell rings, or the slow tick comes.
 * 3. After the first refusal nothing more begins. What goes on goes on, its replies stay in the channel, and those
 *    that are in hand stand in the error's `details.replies`.
 */
import { SubagentError } from "../shared/errors.ts";
import type { ParentAddress } from "../shared/protocol/keys.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { MAX_LIVE_AGENTS } from "../shared/protocol/timing.ts";
import type { OpenClient } from "./client.ts";
import type { PreparedSpawn } from "./spawn-arguments.ts";
import { runTask, type TaskRoom } from "./task.ts";

/** Rings when something may have ended; `next` resolves at the first ring after it was called, or when closed. */
interface Bell {
  next(): Promise<void>;
  close(): void;
}

/** Runs prepared tasks to their replies, acked. Rejects with the signal's reason or the first refusal but for quota. */
export async function runTasks(room: TaskRoom, prepared: readonly PreparedSpawn[]): Promise<Reply[]> {
  room.signal?.throwIfAborted();
  const batch = openBatch(room);
  const replies: Reply[] = [];
  const waiting = [...prepared.entries()];
  const lane = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const reply = await batch.run(next[1]);
      if (!reply) return;
      replies[next[0]] = reply;
    }
  };
  const lanes = Array.from({ length: Math.min(MAX_LIVE_AGENTS, prepared.length) }, () =>
    lane().catch(batch.refuse),
  );
  await Promise.all(lanes);
  batch.close();
  const { refused } = batch;
  if (refused) throw withReplies(refused.reason, Object.values(replies));
  return replies;
}

/** What the tasks of one call share: their room at the parent, and their end. */
interface Batch {
  /** Runs a task as soon as there is room; undefined once the batch was refused. */
  run(task: PreparedSpawn): Promise<Reply | undefined>;
  /** Ends all waiting with a reason; the first one counts. */
  refuse(reason: unknown): void;
  readonly refused: { reason: unknown } | undefined;
  close(): void;
}

function openBatch(room: TaskRoom): Batch {
  const { client, profile, signal } = room;
  const bell = openBell(client, profile.parent);
  const tries = openTries(room);
  let refused: Batch["refused"];
  const batch: Batch = {
    async run(task) {
      while (!refused) {
        const rung = bell.next();
        const reply = await tries.begin(task);
        if (reply !== "no room") return reply;
        await rung;
      }
      return undefined;
    },
    refuse(reason) {
      refused ??= { reason };
      bell.close();
      tries.cancel(refused.reason);
    },
    get refused() {
      return refused;
    },
    close() {
      signal?.removeEventListener("abort", onAbort);
      leave();
      bell.close();
    },
  };
  const onAbort = () => {
    tries.destroy(signal?.reason);
    batch.refuse(signal?.reason);
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  const leave = room.open(batch.refuse);
  return batch;
}

/** The tasks under way: `cancel` ends their waiting only, `destroy` their agents, too. */
function openTries({ client, profile, onQuestion }: TaskRoom) {
  const cancels = new Set<(reason: unknown) => void>();
  // A signal for each task: one with many listeners would be warned about.
  const aborts = new Set<AbortController>();
  const open: TaskRoom["open"] = (cancel) => {
    cancels.add(cancel);
    return () => void cancels.delete(cancel);
  };
  return {
    async begin(task: PreparedSpawn): Promise<Reply | "no room"> {
      const abort = new AbortController();
      aborts.add(abort);
      try {
        return (await runTask({ client, profile, signal: abort.signal, onQuestion, open }, task)).reply;
      } catch (error) {
        if (error instanceof SubagentError && error.code === "quota_exceeded") return "no room";
        throw error;
      } finally {
        aborts.delete(abort);
      }
    },
    cancel(reason: unknown) {
      for (const cancel of [...cancels]) cancel(reason);
    },
    destroy(reason: unknown) {
      for (const abort of [...aborts]) abort.abort(reason);
    },
  };
}

function openBell(client: OpenClient, parent: ParentAddress): Bell {
  let waiting: (() => void)[] = [];
  let closed = false;
  const ring = () => {
    const rung = waiting;
    waiting = [];
    for (const resolve of rung) resolve();
  };
  const unwatch = client.subscriber.watch(client.store.keys.parent(parent).doorbell, {
    onMessage: ring,
    onGap: ring,
    onStop: ring,
  });
  return {
    next: () => (closed ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    close() {
      if (closed) return;
      closed = true;
      unwatch();
      ring();
    },
  };
}

/** The reason, and for an error of ours the replies that came before it. */
function withReplies(reason: unknown, replies: readonly Reply[]): unknown {
  if (!(reason instanceof SubagentError) || replies.length === 0) return reason;
  return new SubagentError(reason.code, reason.message, { ...reason.details, replies }, reason);
}
