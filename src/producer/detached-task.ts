/** A task in two steps: begun and answered at once, its reply waited for later, by this process or another. */
import { FIRST_RUN } from "../shared/protocol/keys.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { contextOf, type Parent } from "./parent.ts";
import { onCancel, withCall } from "./parent-context.ts";
import { type Spawned, spawnAgent } from "./spawn.ts";
import { checkSpawn } from "./spawn-input.ts";

/** A reply that is still in its channel. */
export interface HeldReply {
  reply: Reply;
  /** Takes it out of the channel; never rejects. */
  ack(): Promise<boolean>;
}

/**
 * Begins a task; its reply comes into the parent's channel. `agent`: with the limits of a spawn. The same `request_key`
 * with the same input answers with the agent of the first call. Its agent may ask, where its allowlist names `ask_parent`.
 * Rejects like `Parent.spawn`.
 */
export async function beginTask(
  parent: Parent,
  input: unknown,
  kind: "task" | "agent" = "task",
): Promise<Spawned> {
  const context = contextOf(parent);
  const planned = checkSpawn(kind, input, context, { answersTask: true });
  return withCall(context, (call) => spawnAgent(call, planned));
}

/** Throws what refuses a call that is no repetition, as far as it can be told without asking Redis. */
export function checkTask(parent: Parent, input: unknown, kind: "task" | "agent" | "spawn"): void {
  checkSpawn(kind, input, contextOf(parent), { answersTask: true });
}

/**
 * Waits for the reply of a task that was begun, however it ends, and leaves it in the channel; readers of this client do
 * not see it meanwhile. Rejects with the reason of `signal`, with `closed` after the parent's stop.
 */
export async function waitForTask(
  parent: Parent,
  { address }: Pick<Spawned, "address">,
  signal: AbortSignal,
): Promise<HeldReply> {
  signal.throwIfAborted();
  const context = contextOf(parent);
  const client = await context.open();
  const reservation = client.channels.reserve(address, address.uid);
  const forget = onCancel(context, signal, (reason) => reservation.cancel(reason));
  try {
    const entry = await reservation.wait(FIRST_RUN, "even_if_acked");
    return { reply: entry.entry, ack: () => client.channels.tryAck(address, entry) };
  } finally {
    forget();
    reservation.release(false);
  }
}
