/**
 * Tasks over HTTP: a prompt in, a reply out.
 *
 * 1. The agent is in Redis before the request waits: a request that is cut off loses nothing. The same request with the
 *    same key gets the same reply.
 * 2. A reply is acked after the whole answer was passed to the network. Until then it stays in the channel.
 */

import { z } from "zod";
import { internalsOf } from "../../../producer/client.ts";
import { profileOf } from "../../../producer/inheritance.ts";
import { ackQuestions } from "../../../producer/model-replies.ts";
import { type ParentContext, withCall } from "../../../producer/parent-context.ts";
import type { FinalEntry, Reservation } from "../../../producer/replies/parent-channel.ts";
import { type Spawned, spawnAgent } from "../../../producer/spawn.ts";
import { checkSpawn, TaskInput } from "../../../producer/spawn-input.ts";
import { SubagentError } from "../../../shared/errors.ts";
import { newRequestKey } from "../../../shared/protocol/ids.ts";
import { FIRST_RUN } from "../../../shared/protocol/keys.ts";
import { Reply } from "../../../shared/protocol/reply.ts";
import { onAbort } from "../../../shared/stop-signal.ts";
import { type Route, type RouteAnswer, type RouteCall, route } from "../route.ts";
import { TaskBegun, WaitSeconds } from "../schema.ts";
import { addressOf, sameKey } from "./agents.ts";

const TaskQuery = z.strictObject({ wait: WaitSeconds });
type TaskCall = RouteCall<z.output<typeof TaskQuery>, z.output<typeof TaskInput>>;

/** The rows of these routes. */
export const taskRoutes: readonly Route[] = [
  route({
    method: "post",
    path: "/v1/parents/{parent}/tasks",
    id: "task",
    tag: "tasks",
    says: "Gives a prompt to a fresh agent. With `wait` the response has the reply, if it comes in time.",
    scope: "spawn",
    query: TaskQuery,
    body: TaskInput,
    takesFiles: true,
    isRepeatable: true,
    answers: {
      200: { says: "The reply, acked: it is not in the channel any more.", schema: Reply },
      202: { says: "The agent is at work; its reply comes into the channel.", schema: TaskBegun },
    },
    handle: runTask,
  }),
];

async function runTask(call: TaskCall): Promise<RouteAnswer> {
  const context = contextOf(call);
  const { request_key = newRequestKey() } = sameKey(call, "request_key", call.body.request_key);
  const input = { ...(await call.traced()), ...call.body, request_key };
  const checked = checkSpawn("task", input, context, { answersTask: true });
  const spawned = await withCall(context, (each) => spawnAgent(each, checked));
  const reply = call.query.wait > 0 ? await waitForReply(call, context, spawned) : undefined;
  if (reply) return { status: 200, body: reply.entry.entry, sent: reply.sent };
  const location = addressOf(call, spawned.receipt.agent_id);
  return { status: 202, body: { ...spawned.receipt, request_key }, location };
}

/** Returns the reply and its `sent` callback; undefined if it is late or the server stops. Rejects if the client has left. */
async function waitForReply(call: TaskCall, context: ParentContext, { address, receipt }: Spawned) {
  const client = await context.open();
  const reservation = client.channels.reserve(address, address.uid);
  const late = new SubagentError("timed_out", "The reply did not come in time.");
  const gone = new SubagentError("closed", "The client has gone; the reply stays in the channel.");
  const timer = call.clock.timeout(call.query.wait * 1_000, () => reservation.cancel(late));
  const forgets = [
    onAbort(call.signal, () => reservation.cancel(gone)),
    onAbort(call.waiting, () => reservation.cancel(late)),
  ];
  try {
    const entry = await reservation.wait(FIRST_RUN, "even_if_acked");
    const asker = { uid: address.uid, created_at: Date.parse(receipt.created_at) };
    return { entry, sent: (isWhole: boolean) => ackOrKeep({ context, asker, reservation }, entry, isWhole) };
  } catch (error) {
    reservation.release(false);
    if (error === late) return undefined;
    throw error;
  } finally {
    timer.cancel();
    for (const forget of forgets) forget();
  }
}

/** A task whose reply was answered. */
interface Answered {
  context: ParentContext;
  asker: Parameters<typeof ackQuestions>[1];
  reservation: Reservation;
}

/** Acks the reply if the whole answer was sent, and the questions before it, which take no answer any more. */
function ackOrKeep({ context, asker, reservation }: Answered, entry: FinalEntry, isWhole: boolean): void {
  if (!isWhole) {
    reservation.release(false);
    return;
  }
  const { parent } = context.profile;
  const acking = context.open().then(({ channels }) => channels.tryAck(parent, entry));
  acking.then(
    (acked) => {
      reservation.release(acked && entry);
      if (acked) void ackQuestions(context, asker, entry.id);
    },
    () => reservation.release(false),
  );
}

/** Returns the context of the producer's calls for the parent that the path names. */
function contextOf({ client, address }: TaskCall): ParentContext {
  const { operator, open } = internalsOf(client);
  const profile = profileOf(address(), operator);
  return { profile, operator, open, onStop: () => () => {} };
}
