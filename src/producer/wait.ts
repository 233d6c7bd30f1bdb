/**
 * Waits for existing agents: for the first of them, or for all.
 *
 * 1. A wait ends with the reply of the queued or running run, of the last run, or, before any run, of the first one; or with
 *    the entry that ended the agent. It is reserved: readers of this client do not see it first.
 * 2. Only returned replies are acked. A wait that ends early (timeout, signal, stop) has removed nothing from the channel.
 */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { findAgent } from "./agents.ts";
import type { ClientResources } from "./client-resources.ts";
import { MAX_WAIT_MS, readInput, readOptions, Signal } from "./input.ts";
import { onCancel, type ParentContext, withCall } from "./parent-context.ts";
import type { FinalEntry, Reservation } from "./replies/parent-channel.ts";

/** Options of a wait: `signal` ends it with its reason, `timeout_ms` with `timed_out`. Default: neither. */
export interface WaitOptions {
  signal?: AbortSignal;
  timeout_ms?: number;
}

interface Wait {
  reservation: Reservation;
  entry: Promise<FinalEntry>;
}

/** See {@link WaitOptions}. */
export const WaitInput = z.strictObject({
  signal: Signal,
  timeout_ms: z.number().min(0).max(MAX_WAIT_MS).optional(),
});
const WaitFor = z.object({ agent_ids: z.array(z.unknown()).min(1, "name at least one sub-agent") });

/** Resolves with the reply of the first agent that ends its run, acked. */
export function waitAny(
  context: ParentContext,
  agentIds: unknown,
  options: WaitOptions = {},
): Promise<Reply> {
  return waitFor(context, agentIds, options, async (client, waits) => {
    const first = await Promise.race(
      waits.map(({ reservation, entry }) => entry.then((ended) => ({ reservation, ended }))),
    );
    return take(client, context, first.reservation, first.ended);
  });
}

/** Resolves with the replies of all agents, acked: one for each id, in their order, the same one for an id that comes twice. */
export function waitAll(
  context: ParentContext,
  agentIds: unknown,
  options: WaitOptions = {},
): Promise<Reply[]> {
  return waitFor(context, agentIds, options, async (client, waits, positions) => {
    const ended = await Promise.all(
      waits.map(async ({ reservation, entry }) => ({ reservation, entry: await entry })),
    );
    const taken = ended.map(({ reservation, entry }) => take(client, context, reservation, entry));
    const replies = await Promise.all(taken);
    return positions.flatMap((position) => replies[position] ?? []);
  });
}

async function take(
  { channels }: ClientResources,
  { profile }: ParentContext,
  reservation: Reservation,
  entry: FinalEntry,
): Promise<Reply> {
  reservation.release((await channels.tryAck(profile.parent, entry)) && entry);
  return entry.entry;
}

/** `work` gets one wait for each agent, and for each given id the position of its wait. */
async function waitFor<T>(
  context: ParentContext,
  agentIds: unknown,
  options: WaitOptions,
  work: (client: ClientResources, waits: readonly Wait[], positions: readonly number[]) => Promise<T>,
): Promise<T> {
  const { signal, timeout_ms } = readOptions(WaitInput, options, "wait");
  const { agent_ids } = readInput(WaitFor, { agent_ids: agentIds }, "wait");
  signal?.throwIfAborted();
  const client = await context.open();
  const ids = [...new Set(agent_ids)];
  // A call for each agent: one call for some thousand of them would run out of its second.
  const found = await Promise.all(ids.map((id) => withCall(context, (call) => findAgent(call, id))));
  const reservations = found.map(({ address }) => client.channels.reserve(address, address.uid));
  const cancel = (reason: unknown) => {
    for (const reservation of reservations) reservation.cancel(reason);
  };
  const forget = onCancel(context, signal, cancel);
  const timer =
    timeout_ms === undefined
      ? undefined
      : client.clock.timeout(timeout_ms, () => cancel(timedOut(timeout_ms)));
  try {
    const states = await Promise.all(
      found.map(({ address }) => client.read(() => client.store.runState(address))),
    );
    const waits = reservations.map((reservation, i) => {
      const entry = reservation.wait(Math.max(states[i]?.run ?? 0, 1), "only_if_unacked");
      // When the first of several waits has ended, the others may reject unread.
      entry.catch(() => {});
      return { reservation, entry };
    });
    const positionOf = new Map(ids.map((id, position) => [id, position]));
    return await work(
      client,
      waits,
      agent_ids.flatMap((id) => positionOf.get(id) ?? []),
    );
  } finally {
    timer?.cancel();
    forget();
    cancel(new SubagentError("closed", "The wait is over."));
    for (const reservation of reservations) reservation.release(false);
  }
}

function timedOut(timeoutMs: number): SubagentError {
  return new SubagentError(
    "timed_out",
    `No reply came within ${timeoutMs} ms; no reply was acked and the sub-agents go on: wait again, or destroy them.`,
    { timeout_ms: timeoutMs },
  );
}
