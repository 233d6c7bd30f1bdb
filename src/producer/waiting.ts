/**
 * Waiting for agents that exist: for the first of them, or for all.
 *
 * 1. What is waited for is the reply of the run that is queued or going on, of the last one, or of the first one to
 *    come; or the entry that ended the agent. It is reserved: readers of this client do not see it first.
 * 2. Only what is returned is acked. A wait that is given up (time, signal, stop) has taken nothing out of the channel.
 */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import type { OpenClient } from "./client.ts";
import { readInput } from "./input.ts";
import { findAgent } from "./managing.ts";
import type { Profile } from "./profile.ts";
import type { FinalEntry, Reservation } from "./reply-channel.ts";
import { takeFromChannel } from "./taking.ts";

/** How a wait ends early: `signal` with its reason, `timeoutMs` with `timed_out`. Default: neither. */
export interface WaitOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
}

/** Whose wait it is; `open` gets the means to end it, and takes it back with the function it returns. */
export interface WaitRoom {
  client: OpenClient;
  profile: Profile;
  open(cancel: (reason: unknown) => void): () => void;
}

interface Wait {
  reservation: Reservation;
  entry: Promise<FinalEntry>;
}

const MAX_WAIT_MS = 2 ** 31 - 1;
const Wish = z.object({
  agent_ids: z.array(z.unknown()).min(1, "name at least one sub-agent"),
  timeout_ms: z.number().min(0).max(MAX_WAIT_MS).optional(),
});

/** Resolves with the reply of whichever agent ends its run first, acked. */
export function waitAny(room: WaitRoom, agentIds: unknown, options: WaitOptions): Promise<Reply> {
  return waiting(room, agentIds, options, async (waits) => {
    const first = await Promise.race(
      waits.map(({ reservation, entry }) => entry.then((ended) => ({ reservation, ended }))),
    );
    return take(room, first.reservation, first.ended);
  });
}

/** Resolves with the replies of all agents in the order of their ids, acked. */
export function waitAll(room: WaitRoom, agentIds: unknown, options: WaitOptions): Promise<Reply[]> {
  return waiting(room, agentIds, options, async (waits) => {
    const entries = await Promise.all(waits.map(({ entry }) => entry));
    return Promise.all(waits.map(({ reservation }, i) => take(room, reservation, entries[i] as FinalEntry)));
  });
}

async function take({ client, profile }: WaitRoom, reservation: Reservation, entry: FinalEntry) {
  reservation.release(await takeFromChannel(client, profile.parent, entry));
  return entry.entry;
}

async function waiting<T>(
  room: WaitRoom,
  agentIds: unknown,
  { signal, timeoutMs }: WaitOptions,
  work: (waits: readonly Wait[]) => Promise<T>,
): Promise<T> {
  const { client, profile } = room;
  const input = { agent_ids: agentIds, timeout_ms: timeoutMs };
  const { agent_ids, timeout_ms } = readInput(Wish, input, "wait");
  signal?.throwIfAborted();
  const call = client.call();
  const found = await Promise.all(
    [...new Set(agent_ids)].map((id) => findAgent(client, call, profile.parent, id)),
  );
  const reservations = found.map(({ address }) => client.inbox.reserve(profile.parent, address.uid));
  const cancel = (reason: unknown) => {
    for (const reservation of reservations) reservation.cancel(reason);
  };
  const onAbort = () => cancel(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const close = room.open(cancel);
  const timer =
    timeout_ms === undefined
      ? undefined
      : client.clock.timeout(timeout_ms, () => cancel(timedOut(timeout_ms)));
  try {
    if (signal?.aborted) onAbort();
    const records = await call.read(() =>
      Promise.all(found.map(({ address }) => client.store.record(address))),
    );
    const waits = reservations.map((reservation, i) => {
      const entry = reservation.wait(Math.max(records[i]?.run ?? 0, 1), false);
      // Of several waits only one is looked at; the others end with it.
      entry.catch(() => {});
      return { reservation, entry };
    });
    return await work(waits);
  } finally {
    timer?.cancel();
    signal?.removeEventListener("abort", onAbort);
    close();
    cancel(new SubagentError("closed", "The wait is over."));
    for (const reservation of reservations) reservation.release(false);
  }
}

function timedOut(timeoutMs: number): SubagentError {
  return new SubagentError(
    "timed_out",
    `No reply came within ${timeoutMs} ms; nothing was taken and the sub-agents go on: wait again, or destroy them.`,
    { timeout_ms: timeoutMs },
  );
}
