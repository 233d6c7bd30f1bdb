/**
 * Shows the activity of sub-agents: a block that redraws itself on a terminal, plain lines elsewhere.
 *
 * Owns the rows and the timer that redraws them. `progress-rows.ts` owns the content of a row, `output.ts` the position of
 * the block.
 *
 * 1. Events are best effort and may be lost: a reply overwrites the counters from events.
 * 2. At most one redraw every 100 ms, and one a second if nothing happens, so that ages advance.
 * 3. Plain lines do not repeat: six reads in a row in one turn are one line.
 */
import type { Clock } from "../../shared/clock.ts";
import type { ProgressEvent, Reply } from "../../shared/protocol/reply.ts";
import { formatAge, formatCount, formatPlural, formatReached, formatUsd } from "./numbers.ts";
import type { Output } from "./output.ts";
import { newRow, type Row, renderBoard, rowAfter, rowWithReply } from "./progress-rows.ts";
import { lineCells, plainLine, wrap } from "./text.ts";

const REDRAW_MS = 100;
const IDLE_REDRAW_MS = 1_000;

/** Options of a view that is not about the command's own agents. */
export interface ProgressOptions {
  /** Returns the row of an event; default: its agent's name, which the command keeps unique. */
  rowOf?: (event: ProgressEvent) => string;
  /** Prints a plain line; default: `output.note`. */
  tell?: (line: string) => void;
  /** Text of the block while there is no row; default: none. */
  empty?: string;
  /** Whether `stop` leaves the last rows on the terminal; default false. */
  leavesRows?: boolean;
}

/** The view of the agents of one command; rows are identified by their names. */
export interface Progress {
  /** Begins to redraw. Idempotent. */
  start(): void;
  /** Adds a row, shown as `label`; the age counts from now. */
  add(name: string, label?: string): void;
  /** Shows below the rows for how long Redis has not answered; `isAway` false removes that line. */
  away(isAway: boolean): void;
  /** Replaces or adds a row; `change` gets the current one. */
  put(name: string, change: (row: Row | undefined) => Row): void;
  /** Applies a progress event; ignores it if the agent has no row or has replied. */
  apply(event: ProgressEvent): void;
  /** Ends a row with its reply; redraws at once, so that the row does not lag behind the reply printed above it. */
  finish(name: string, reply: Reply): void;
  /** Removes the row of an agent that gives no reply. */
  drop(name: string): void;
  /** Removes the block, or leaves it as it is. Idempotent. */
  stop(): void;
}

/** Creates a view; it shows nothing before `start`. */
export function createProgress(output: Output, clock: Clock, options: ProgressOptions = {}): Progress {
  const { rowOf = (event) => event.name, tell: say = (line) => output.note(line) } = options;
  const rows = new Map<string, Row>();
  /** Rows with a reply: later events are ignored. */
  const finished = new Set<string>();
  const block = createBlock(output, clock, rows, options);
  const teller = createTeller(rowOf, say);
  const put = (row: Row) => {
    rows.set(row.name, row);
    block.redrawSoon();
  };
  return {
    start: block.start,
    stop: block.stop,
    add: (name, label) =>
      put({ ...newRow(name, clock.monotonicMs()), ...(label !== undefined && { label }) }),
    away: block.away,
    put: (name, change) => put(change(rows.get(name))),
    apply(event) {
      const row = rows.get(rowOf(event));
      if (!row || finished.has(row.name)) return;
      put(rowAfter(row, event));
      if (!output.isLive) teller.tell(event);
    },
    finish(name, reply) {
      const row = rows.get(name);
      if (!row) return;
      finished.add(name);
      rows.set(name, rowWithReply(row, reply, clock.monotonicMs()));
      block.redraw();
    },
    drop(name) {
      rows.delete(name);
      teller.forget(name);
      block.redrawSoon();
    },
  };
}

/** Creates the block that shows `rows` and redraws itself by a timer; draws nothing if the output cannot redraw. */
function createBlock(
  output: Output,
  clock: Clock,
  rows: ReadonlyMap<string, Row>,
  { empty, leavesRows = false }: ProgressOptions,
) {
  let timer: { cancel(): void } | undefined;
  let drawnAtMs = Number.NEGATIVE_INFINITY;
  let isRunning = false;
  let awaySinceMs: number | undefined;
  const schedule = (ms: number) => {
    timer?.cancel();
    timer = isRunning && output.isLive ? clock.timeout(ms, redraw) : undefined;
  };
  const rendered = () => {
    const { columns, rows: height } = output.size;
    const view = { columns, rows: height, nowMs: drawnAtMs, style: output.style, awaySinceMs };
    const lines = rows.size === 0 && empty !== undefined ? wrap(empty, lineCells(columns)) : undefined;
    const dimmed = lines?.map((line) => output.style("dim", line));
    return dimmed ?? renderBoard([...rows.values()], view);
  };
  const redraw = () => {
    if (!isRunning || !output.isLive) return;
    drawnAtMs = clock.monotonicMs();
    output.block(rendered());
    schedule(IDLE_REDRAW_MS);
  };
  return {
    redraw,
    away(isAway: boolean) {
      awaySinceMs = isAway ? (awaySinceMs ?? clock.monotonicMs()) : undefined;
      schedule(0);
    },
    redrawSoon: () => schedule(Math.max(0, drawnAtMs + REDRAW_MS - clock.monotonicMs())),
    start() {
      isRunning = true;
      schedule(0);
    },
    stop() {
      const isLeft = leavesRows && isRunning && output.isLive && rows.size > 0;
      isRunning = false;
      schedule(0);
      output.block([]);
      if (isLeft) output.note(rendered());
    },
  };
}

/**
 * Prints events as plain lines. If workers claim and release a run repeatedly because its reason to wait stays, that is
 * printed once. A line repeats only after another turn, tool, question or alert.
 */
function createTeller(
  rowOf: (event: ProgressEvent) => string,
  say: (line: string) => void,
): { tell(event: ProgressEvent): void; forget(name: string): void } {
  const told = new Map<string, Set<string>>();
  return {
    tell(event) {
      const line = lineAbout(event);
      const name = rowOf(event);
      const lines = told.get(name) ?? new Set<string>();
      if (line === undefined || lines.has(line)) return;
      if (!STANDING_STILL.has(event.type)) lines.clear();
      told.set(name, lines.add(line));
      say(`${plainLine(name)}: ${line}`);
    },
    forget: (name) => void told.delete(name),
  };
}

/** Events of a run that makes no progress. */
const STANDING_STILL: ReadonlySet<ProgressEvent["type"]> = new Set([
  "run_started",
  "run_continued",
  "worker_lost",
  "model_retry",
  "released",
]);

/** Text of the reasons why a worker releases a run; other reasons are failures of a model call and are shown as they are. */
const RELEASED_BECAUSE: Readonly<Record<string, string>> = {
  paused: "the installation is paused until subagent-queue resume",
  authentication: "the provider refuses the workers' API key; the run waits until a worker has a valid one",
  permission:
    "the provider does not permit the API key of the workers to do this, the run waits for another one",
  billing: "the provider's account has no credit, the run waits until it has",
  drain: "its worker is stopping",
  isolation: "its worker must run another one alone, because that one crashed workers",
  crashed: "its process has crashed",
  disk_full: "the disk of its worker's workspaces is full, the run waits until there is room",
  broken_off: "an error stopped it in its worker, whose log says more",
  model_stopped: "the model of its worker was stopped",
  lease_lost: "its worker lost its lease: it was silent for too long, or Redis lost what it wrote",
};

function releasedBecause(reason: string): string {
  return RELEASED_BECAUSE[reason] ?? plainLine(reason.replaceAll("_", " "));
}

/** Returns the plain line about an event; undefined for events that only the live view shows. */
export function lineAbout(event: ProgressEvent): string | undefined {
  switch (event.type) {
    case "run_started":
      return `started, at most ${formatPlural(event.max_turns, "turn")}`;
    case "run_continued":
      return `goes on, with worker ${plainLine(event.worker)}`;
    case "worker_lost":
      return `its worker is gone, or was silent for too long: ${plainLine(event.worker)}`;
    case "turn_finished":
      return `turn ${event.turn}, ${formatCount(event.tokens)} tokens, ${formatUsd(event.cost_usd)}`;
    case "tool_started":
      return `turn ${event.turn}, ${plainLine(event.tool)}`;
    case "compacted":
      return `turn ${event.turn}, the conversation was too long: a summary replaces everything before message ${event.before}`;
    case "model_retry":
      return `turn ${event.turn}, the model is asked again in ${formatAge(event.delay_ms)} (${plainLine(event.kind)})`;
    case "released":
      return `handed back to the queue: ${releasedBecause(event.reason)}`;
    case "waiting":
      return `asks: ${plainLine(event.question)}`;
    case "waiting_for_tools":
      return `waits for a worker with ${plainLine(event.tools.join(", "))}`;
    case "alert":
      return `alert: ${event.alert.kind} reached ${formatReached(event.alert.kind, event.alert.value)}`;
    case "turn_started":
    case "text_delta":
    case "tool_finished":
    case "ended":
      return undefined;
  }
}
