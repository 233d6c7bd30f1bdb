/** The context of every call of one parent: its profile, the opened client, and how a wait ends when the parent stops. */

import type { ParentAddress } from "../shared/protocol/keys.ts";
import { onAbort } from "../shared/stop-signal.ts";
import type { ClientResources } from "./client-resources.ts";
import type { Profile } from "./inheritance.ts";
import type { OperatorDefaults } from "./input.ts";
import type { RedisCall } from "./redis-call.ts";

/** See the module's header. */
export interface ParentContext {
  readonly profile: Profile;
  readonly operator: OperatorDefaults;
  /** Returns the opened client. Rejects with `closed` after the parent's or the client's stop. */
  open(): Promise<ClientResources>;
  /** Calls `end` with the reason when the parent stops; the returned function unregisters `end`. */
  onStop(end: (reason: unknown) => void): () => void;
}

/** One call of a parent. */
export interface ParentCall extends RedisCall {
  readonly client: ClientResources;
  readonly parent: ParentAddress;
}

/** Runs `work` as one call of the parent. */
export const withCall = runnerOf("call");

/** Runs `work` as one call of the parent of which each command has the time of a call. */
export const withSteps = runnerOf("steps");

function runnerOf(kind: "call" | "steps") {
  return async <T>(
    { open, profile: { parent } }: Pick<ParentContext, "open" | "profile">,
    work: (call: ParentCall) => Promise<T>,
  ): Promise<T> => {
    const client = await open();
    return client[kind]((call) => work({ client, parent, ...call }));
  };
}

/** Runs a call of the parent that is one read. */
export async function withRead<T>(
  { open, profile: { parent } }: Pick<ParentContext, "open" | "profile">,
  send: (parts: Pick<ParentCall, "client" | "parent">) => Promise<T>,
): Promise<T> {
  const client = await open();
  return client.read(() => send({ client, parent }));
}

/** Calls `cancel` with the reason when `signal` aborts or the parent stops; the returned function unregisters it. */
export function onCancel(
  { onStop }: Pick<ParentContext, "onStop">,
  signal: AbortSignal | undefined,
  cancel: (reason: unknown) => void,
): () => void {
  const forgetSignal = onAbort(signal, () => cancel(signal?.reason));
  const forgetStop = onStop(cancel);
  return () => {
    forgetSignal();
    forgetStop();
  };
}
