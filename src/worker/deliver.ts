/** Performs `deliver`: the parent's messages enter the log and leave the inbox in one step. */
import { entryKey, type UserEntry } from "../shared/protocol/log.ts";
import type { Step } from "./loop/next.ts";
import type { RunEnd } from "./run-context.ts";
import type { Session } from "./session.ts";

/** Logs the messages of `step` as one user message. */
export async function deliver(
  session: Session,
  step: Extract<Step, { do: "deliver" }>,
): Promise<RunEnd | undefined> {
  const entry: UserEntry = { v: 1, role: "user", run: session.record.run, messages: [...step.messages] };
  const last = step.messages.at(-1)?.message_id ?? "";
  const committed = await session.commit([[entryKey.message(step.message), entry]], {
    consume: { to: step.consumeTo, last },
  });
  return committed === "lost" ? { status: "lost" } : undefined;
}
