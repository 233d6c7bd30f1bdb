/**
 * Performs `deliver`: adds the parent's messages to the log. It first writes the files of a message into the workspace, then
 * adds the message, with its images, to the log. After a crash in between, the same files are written once more.
 */
import type { Clock } from "../../shared/clock.ts";
import type { DeliveredMessage } from "../../shared/protocol/log.ts";
import { type Attached, attachmentKey, type InboxMessage } from "../../shared/protocol/message.ts";
import { newDelivery, newFailure } from "../loop/log.ts";
import type { Step } from "../loop/next.ts";
import { writeParentFiles } from "../tools/parent-files.ts";
import type { RunContext } from "./context.ts";
import { onDisk } from "./run-workspace.ts";
import type { Session } from "./session.ts";

type DeliverStep = Extract<Step, { do: "deliver" }>;

/**
 * Adds the parent's messages, as one user message, to the next commit; their files are in the workspace before that. If the run is
 * stopped meanwhile, nothing is added: a stop leaves files unwritten, and the next holder writes all of them. In a run that has
 * begun, the commit comes before the next call: if the holder dies in that call, the log has all that was paid for.
 */
export async function deliverMessages(
  context: RunContext,
  session: Session,
  step: DeliverStep,
): Promise<undefined> {
  const { messages, attached } = await takeAttachments(context, session, step.messages);
  if (session.lease.workStop.isStopped) return undefined;
  const delivery = newDelivery(step.message, session.record.run, messages);
  session.add([delivery, ...blankFailure(session, step, attached)], session.state.isBegun);
  const ids = step.messages.map(({ message_id }) => message_id);
  session.consume(step.consumeTo, ids, attached);
  return undefined;
}

/**
 * Returns a failure for a run that begins with blank messages. Our producer refuses such messages; the parent of another
 * program's messages learns from the reply what to write.
 */
function blankFailure({ state }: Session, { message, messages }: DeliverStep, attached: readonly string[]) {
  const isBlank = messages.every(({ text }) => text.trim() === "");
  if (state.isBegun || attached.length > 0 || !isBlank) return [];
  const why = `The text of message ${messages[0]?.message_id} is blank: write what the sub-agent should do or know.`;
  return [newFailure(message + 1, { v: 1, kind: "model_error", message: why })];
}

const ATTACHMENTS_MISSING =
  "Files or images that came with this message were lost on the way. Say so, and go on without them.";

/** Messages as they are delivered, and the names of their attachments. */
interface Delivery {
  messages: DeliveredMessage[];
  attached: string[];
}

/** Writes the files of `messages` into the workspace. Rejects if the disk or Redis cannot be asked. */
async function takeAttachments(
  { store, clock }: Pick<RunContext, "store" | "clock">,
  session: Session,
  messages: readonly InboxMessage[],
): Promise<Delivery> {
  const isFirst = session.state.inboxRead === 0 && session.record.spec.attached === true;
  const names = messages.map(({ attached, message_id }, i) => [
    ...(i === 0 && isFirst ? [attachmentKey()] : []),
    ...(attached ? [attachmentKey(message_id)] : []),
  ]);
  const attached = names.flat();
  if (attached.length === 0) return { messages: messages.map(plain), attached };
  const found = await store.attached(session.address, attached);
  const byName = new Map(attached.map((name, i) => [name, found[i]]));
  const delivered: DeliveredMessage[] = [];
  for (const [i, message] of messages.entries()) {
    const own = names[i] ?? [];
    const parts = own.map((name) => byName.get(name));
    delivered.push(own.length === 0 ? plain(message) : await withParts(clock, session, message, parts));
  }
  return { messages: delivered, attached };
}

function plain({ v, message_id, text }: InboxMessage): DeliveredMessage {
  return { v, message_id, text };
}

async function withParts(
  clock: Clock,
  session: Session,
  message: InboxMessage,
  parts: readonly (Attached | undefined)[],
): Promise<DeliveredMessage> {
  const files = parts.flatMap((part) => part?.files ?? []);
  const images = parts.flatMap((part) => part?.images ?? []);
  const notes = parts.includes(undefined) ? [ATTACHMENTS_MISSING] : [];
  if (files.length > 0) {
    const workspace = await session.equipment.workspace.open();
    const write = (signal: AbortSignal) => writeParentFiles(workspace, files, signal);
    notes.push(...(await onDisk(clock, session.lease.workStop, write)));
  }
  return {
    ...plain(message),
    ...(notes.length > 0 && { note: notes.join("\n") }),
    ...(images.length > 0 && { images }),
  };
}
