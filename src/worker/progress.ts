/** What a run tells those who watch it: one progress event each, text deltas gathered. Hints only, never state. */
import type { Clock } from "../shared/clock.ts";
import type { AgentRecord } from "../shared/protocol/agent.ts";
import type { ProgressEvent } from "../shared/protocol/event.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import type { Alert, ReplyStatus, StopReason } from "../shared/protocol/reply.ts";
import type { RunContext } from "./run-context.ts";
import type { ToolOutcome } from "./tools/registry.ts";

/** Text deltas of one turn are published together, this often. */
const DELTA_INTERVAL_MS = 100;

type Specific<T> = T extends unknown ? Omit<T, "v" | "agent_id" | "name" | "run" | "turn"> : never;

/** Publishes the events of one run. */
export interface Reporter {
  runStarted(maxTurns: number, worker: string): void;
  turnStarted(turn: number): void;
  turnFinished(turn: number, tokens: number, costUsd: number): void;
  toolStarted(turn: number, call: { id: string; name: string }): void;
  toolFinished(turn: number, call: { id: string; name: string }, outcome: ToolOutcome): void;
  /** One event for each alert of `after` that `before` did not have. */
  alerts(turn: number, before: readonly Alert[], after: readonly Alert[]): void;
  modelRetry(turn: number, kind: string, delayMs: number): void;
  released(reason: string): void;
  /** The agent waits for an answer. */
  waiting(turn: number, question: string): void;
  ended(status: ReplyStatus, reason: StopReason): void;
  /** Gathers the text of a turn. */
  textOf(turn: number): { push(delta: string): void; flush(): void };
}

/** The reporter of the run that `record` is at. */
export function reporterOf(
  { publish, clock }: RunContext,
  address: AgentAddress,
  record: AgentRecord,
): Reporter {
  const tell = (turn: number, event: Specific<ProgressEvent>) =>
    publish(address, { v: 1, agent_id: record.agent_id, name: record.name, run: record.run, turn, ...event });
  return {
    runStarted: (max_turns, worker) => tell(0, { type: "run_started", max_turns, worker }),
    turnStarted: (turn) => tell(turn, { type: "turn_started" }),
    turnFinished: (turn, tokens, cost_usd) => tell(turn, { type: "turn_finished", tokens, cost_usd }),
    toolStarted: (turn, { id, name }) => tell(turn, { type: "tool_started", tool_use_id: id, tool: name }),
    toolFinished: (turn, { id, name }, { isError, durationMs }) =>
      tell(turn, {
        type: "tool_finished",
        tool_use_id: id,
        tool: name,
        is_error: isError,
        duration_ms: Math.round(durationMs),
      }),
    alerts(turn, before, after) {
      const known = new Set(before.map((alert) => alert.kind));
      for (const alert of after) if (!known.has(alert.kind)) tell(turn, { type: "alert", alert });
    },
    modelRetry: (turn, kind, delay_ms) => tell(turn, { type: "model_retry", kind, delay_ms }),
    waiting: (turn, question) => tell(turn, { type: "waiting", question }),
    released: (reason) => tell(0, { type: "released", reason }),
    ended: (status, stop_reason) => tell(0, { type: "ended", status, stop_reason }),
    textOf: (turn) => gather(clock, (text) => tell(turn, { type: "text_delta", text })),
  };
}

function gather(clock: Clock, send: (text: string) => void) {
  let gathered = "";
  let timer: { cancel(): void } | undefined;
  const flush = () => {
    timer?.cancel();
    timer = undefined;
    if (gathered !== "") send(gathered);
    gathered = "";
  };
  return {
    push(delta: string) {
      gathered += delta;
      timer ??= clock.timeout(DELTA_INTERVAL_MS, flush);
    },
    flush,
  };
}
