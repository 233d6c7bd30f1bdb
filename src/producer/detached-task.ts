/** A task in two calls: the first begins it and returns at once, the second waits for its reply, also in another process. */
import { FIRST_RUN } from "../shared/protocol/keys.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { contextOf, type Parent } from "./parent.ts";
import { onCancel, withCall } from "./parent-context.ts";
import { type Spawned, spawnAgent } from "./spawn.ts";
import { checkSpawn } from "./spawn-input.ts";

/** A reply that is still in its channel. */
export interface HeldReply {
  reply: Reply;
  /** Removes it from the channel; never rejects. False: the ack failed. */
  ack(): Promise<boolean>;
}

/**
 * Begins a task; its reply arrives in the parent's channel. `agent`: with the limits of a spawn. The same `request_key`
 * with the same input returns the agent of the first call. The agent may ask if its allowlist names `ask_parent`.
 * Rejects like `Parent.spawn`.
 */
export async function beginTask(
  parent: Parent,
  input: unknown,
  kind: "task" | "agent" = "task",
): Promise<Spawned> {
  const context = contextOf(parent);
  const checked = checkSpawn(kind, input, context, { answersTask: true });
  return withCall(context, (call) => spawnAgent(call, checked));
}

/** Makes the checks of a new call that need no Redis, and throws the refusal. */
export function checkTask(parent: Parent, input: unknown, kind: "task" | "agent" | "spawn"): void {
  checkSpawn(kind, input, contextOf(parent), { answersTask: true });
}

/**
 * Waits for the reply of a begun task, successful or not, and leaves it in the channel. Readers of this client do not see it
 * during the wait, nor the agent's questions if `onQuestion` takes them. Rejects with the reason of `signal`, and with `closed`
 * after the parent's stop.
 */
export async function waitForTask(
  parent: Parent,
  { address }: Pick<Spawned, "address">,
  signal: AbortSignal,
  onQuestion?: () => void,
): Promise<HeldReply> {
  signal.throwIfAborted();
  const context = contextOf(parent);
  const client = await context.open();
  const reservation = client.channels.reserve(address, address.uid, onQuestion);
  const forget = onCancel(context, signal, (reason) => reservation.cancel(reason));
  try {
    const entry = await reservation.wait(FIRST_RUN, "even_if_acked");
    return { reply: entry.entry, ack: () => client.channels.tryAck(address, entry) };
  } finally {
    forget();
    reservation.release(false);
  }
}
