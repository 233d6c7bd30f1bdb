/** The step that asks the parent: its questions go out, and no process holds the agent until they are answered. */
import { ANSWER_MS } from "../../shared/protocol/limits.ts";
import type { Step } from "../loop/next.ts";
import type { RunContext, RunEnd } from "./context.ts";
import type { Session } from "./session.ts";

/** Puts the questions, and the agent waits for the answers, held by no process. Undefined = the parent wants an end. */
export async function askParent(
  { deadlines }: RunContext,
  session: Session,
  { turn, questions }: Extract<Step, { do: "ask" }>,
): Promise<RunEnd | "lost" | undefined> {
  if (session.isCommitDue) {
    const committed = await session.commit();
    if (committed !== "committed") return committed === "lost" ? "lost" : undefined;
  }
  const { address, record } = session;
  const { answer_ms: answerMs = ANSWER_MS } = record.spec;
  await deadlines.touch(address, answerMs);
  const events = questions.map(({ text }) => ({ type: "waiting", turn, question: text }) as const);
  const asked = await session.ask(questions, answerMs, events);
  if (asked === "lost") return "lost";
  if (asked === "finishing") return undefined;
  return { status: "released", reason: "question" };
}
