/** One run read out of the log: its turns in order, each tool call with what became of it. */
import { isToolUse, type ToolUseBlock, textOf } from "../../shared/protocol/content.ts";
import type { AssistantEntry, ToolResultEntry } from "../../shared/protocol/log.ts";
import type { Log } from "./log.ts";

/** A tool call and what became of it. */
export interface ToolCall {
  id: string;
  name: string;
  input: ToolUseBlock["input"];
  started: boolean;
  result: ToolResultEntry | undefined;
}

/** One committed model call of the run; `message` is its number in the conversation. */
export interface Turn {
  message: number;
  entry: AssistantEntry;
  text: string;
  calls: ToolCall[];
}

/** The current run. */
export interface RunView {
  /** Number of its first user message; undefined before anything was delivered. */
  firstMessage: number | undefined;
  turns: Turn[];
  /** Number of the user message that comes next, or waits for the model already. */
  userMessage: number;
  /** Whether that user message has been delivered already. */
  delivered: boolean;
}

/** The run `log.run` as the log shows it. */
export function viewRun(log: Log): RunView {
  const { deliveries, turns } = log.entries;
  let firstMessage: number | undefined;
  for (const [n, delivery] of deliveries) {
    if (delivery.run === log.run && (firstMessage === undefined || n < firstMessage)) firstMessage = n;
  }
  const userMessage = turns.size * 2;
  const own: Turn[] = [];
  if (firstMessage !== undefined) {
    for (let n = firstMessage + 1; n < userMessage; n += 2) {
      const entry = turns.get(n);
      if (entry) own.push(turnOf(log, n, entry));
    }
  }
  return { firstMessage, turns: own, userMessage, delivered: deliveries.get(userMessage)?.run === log.run };
}

/** The turn at message `n`. */
export function turnOf(log: Log, n: number, entry: AssistantEntry): Turn {
  const calls = entry.content.filter(isToolUse).map(({ id, name, input }) => ({
    id,
    name,
    input,
    started: log.entries.started.has(`${n}/${id}`),
    result: log.entries.results.get(`${n}/${id}`),
  }));
  return { message: n, entry, text: textOf(entry.content), calls };
}
