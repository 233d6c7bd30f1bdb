/** Performs `ask`: the questions go out and the agent waits for the answers, held by nobody. */
import { ANSWER_MS } from "../shared/protocol/timing.ts";
import type { Step } from "./loop/next.ts";
import type { RunContext, RunEnd } from "./run-context.ts";
import type { Session } from "./session.ts";

/** Asks: first the deadline hint, then the verb. The wake comes with the last answer. Undefined = the parent wants an end. */
export async function askParent(
  { deadlines }: RunContext,
  session: Session,
  { turn, questions }: Extract<Step, { do: "ask" }>,
): Promise<RunEnd | undefined> {
  const { address, record, report } = session;
  const { answer_ms: answerMs = ANSWER_MS } = record.spec;
  await deadlines.touch(address, answerMs);
  const asked = await session.ask(questions, answerMs, { run: record.run, turn, asked: questions.length });
  if (asked === "lost") return { status: "lost" };
  if (asked === "finishing") return undefined;
  for (const { text } of questions) report.waiting(turn, text);
  return { status: "released", reason: "question" };
}
