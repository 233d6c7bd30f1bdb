/** `doctor --measure`: makes tiny calls to the model backend, more and more side by side, and says what it takes. */
import type { Clock } from "../../shared/clock.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import type { CallControl, Model, ModelRequest } from "../../worker/model/model.ts";
import { messageJson, requestHead } from "../../worker/model/request.ts";
import type { CommandContext } from "../command.ts";
import { createClosing } from "../local/disposables.ts";
import { openModel } from "../local/service.ts";
import { modelText } from "../terminal/banner.ts";
import { formatPlural } from "../terminal/numbers.ts";
import type { Finding } from "./report.ts";

/** Calls side by side, and how many calls are made so; the first one opens connections and is not counted. */
const LEVELS = [
  { concurrency: 1, calls: 1 },
  { concurrency: 1, calls: 4 },
  { concurrency: 2, calls: 6 },
  { concurrency: 4, calls: 12 },
  { concurrency: 8, calls: 24 },
] as const;
const MAX_TOKENS = 16;
/** A call that takes longer than this has failed. */
const CALL_LIMIT_MS = 60_000;
/** The built-in offline model answers after this time, as something that is far away would. */
const OFFLINE_LATENCY_MS = 100;

/** Measures the configured backend, or the offline model; says beforehand what it will spend. */
export async function measure(context: CommandContext) {
  const { config, output, clock, signal } = context;
  const total = LEVELS.reduce((sum, { calls }) => sum + calls, 0);
  const backend = config.provider
    ? modelText(config)
    : `the built-in offline model (${OFFLINE_LATENCY_MS} ms a call)`;
  output.note(
    `Measuring ${backend}: ${formatPlural(total, "call")} of at most ${MAX_TOKENS} output tokens each.`,
  );
  const closing = createClosing();
  try {
    const model = await openModel(context, closing, OFFLINE_LATENCY_MS);
    const levels = await callAtAllLevels(model, config.model, clock, signal);
    return measurementOf(levels, config.concurrency);
  } finally {
    await closing.close();
  }
}

/** Calls at each level until one fails. */
export async function callAtAllLevels(
  model: Model,
  modelId: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<Level[]> {
  const callAt = async (concurrency: number, calls: number): Promise<Level> => {
    const callsMs: number[] = [];
    let left = calls;
    let failure: Level["failure"];
    const callInTurn = async () => {
      while (left > 0 && !failure) {
        left -= 1;
        const startedMs = clock.monotonicMs();
        const problem = await callOnce(model, modelId, clock, signal);
        if (problem) failure ??= problem;
        else callsMs.push(clock.monotonicMs() - startedMs);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, callInTurn));
    return { concurrency, callsMs, ...(failure && { failure }) };
  };
  const levels: Level[] = [];
  for (const { concurrency, calls } of LEVELS) {
    levels.push(await callAt(concurrency, calls));
    if (levels.at(-1)?.failure) break;
  }
  return levels.length > 1 ? levels.slice(1) : levels;
}

/** Undefined: it was answered. */
async function callOnce(
  model: Model,
  modelId: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<Level["failure"]> {
  const control: CallControl = {
    mayBegin: () => !signal.aborted,
    abortCall: null,
    deadlineMs: clock.monotonicMs() + CALL_LIMIT_MS,
  };
  const abort = () => control.abortCall?.("measuring was interrupted");
  signal.addEventListener("abort", abort, { once: true });
  const outcome = await model
    .call(requestFor(modelId), control)
    .finally(() => signal.removeEventListener("abort", abort));
  if (signal.aborted) return { isLimit: false, problem: "it was interrupted" };
  if (outcome.status === "answer") return undefined;
  if (outcome.status === "aborted")
    return { isLimit: false, problem: `a call took longer than ${CALL_LIMIT_MS / 1_000} s` };
  const { kind, message } = outcome.failure;
  return { isLimit: kind === "rate_limited" || kind === "overloaded", problem: message };
}

function requestFor(model: string): ModelRequest {
  const content = [{ type: "text" as const, text: "Answer with the word ok." }];
  return {
    model,
    head: requestHead({ maxTokens: MAX_TOKENS, system: "", tools: [] }),
    messages: messageJson({ role: "user", content }),
    cachedLength: 0,
    extra: "",
    purchaseId: `measure-${newRequestKey()}`,
    maxTokens: MAX_TOKENS,
    stream: false,
  };
}

/** What is said about the levels, for workers that have `concurrency` runs at a time. */
export function measurementOf(levels: readonly Level[], concurrency: number) {
  const found = judgeParallelism(levels);
  const figures = levels
    .filter(({ failure }) => !failure)
    .map((level) => ({
      concurrency: level.concurrency,
      calls: level.callsMs.length,
      calls_per_second: Math.round(callsPerSecond(level) * 100) / 100,
    }));
  const findings = findingsAbout(found, concurrency);
  const speeds = figures.map((level) => `${level.concurrency}: ${level.calls_per_second.toFixed(1)}/s`);
  const summary = [SUMMARIES[found.status](found), speeds.join("  ")].filter(Boolean).join(" · ");
  const area = { area: "model", severity: findings[0]?.severity ?? "ok", summary } as const;
  return { area, findings, levels: figures };
}

const SUMMARIES: Record<Parallelism["status"], (found: Parallelism) => string> = {
  parallel: ({ takes }) => `answers ${takes} calls side by side without waiting`,
  serial: ({ takes }) => `answers ${formatPlural(takes, "call")} at a time`,
  limited: ({ takes }) => `refuses more than ${formatPlural(takes, "call")} at a time`,
  too_quick: ({ callMs = 0 }) => `a call takes ${callMs.toFixed(1)} ms: too quick to tell`,
  failed: () => "not measured",
};

function findingsAbout({ status, takes, problem }: Parallelism, concurrency: number): Finding[] {
  const finding = { area: "model" as const, count: 1, names: [], fixable: false };
  if (status === "failed") {
    const what = `the model backend could not be measured: ${problem}`;
    return [{ ...finding, check: "model_failed", severity: "error", what, todo: "" }];
  }
  // While one run uses its tools another one may call: twice as many keep the backend busy.
  const enough = 2 * takes;
  if ((status !== "serial" && status !== "limited") || concurrency <= enough) return [];
  const [does, then] =
    status === "serial"
      ? ["answers", "only queues"]
      : ["takes no more than", "is refused and tried again later"];
  const what = `the model backend ${does} ${formatPlural(takes, "call")} at a time: SUBAGENT_CONCURRENCY above ${enough} ${then}`;
  const todo = `set SUBAGENT_CONCURRENCY=${enough} for all workers together (it is ${concurrency} here)`;
  return [{ ...finding, check: "serial_model", severity: "warn", what, todo }];
}

// Whether calls side by side pay, from how long they took: what the backend takes at a time. Pure.

/** The calls that were made at one number of calls side by side. */
export interface Level {
  concurrency: number;
  /** How long each call took that brought an answer, ms. */
  callsMs: readonly number[];
  /** The first failure, if any; `isLimit`: the provider asked for fewer calls. */
  failure?: { isLimit: boolean; problem: string };
}

/**
 * What a backend takes. `parallel`: the most that was tried brings more than anything below; `serial`: beyond `takes`
 * calls at a time the others wait; `limited`: beyond that they are refused; `too_quick`: calls so short (`callMs`) say
 * nothing; `failed`: `takes` is 0.
 */
export interface Parallelism {
  status: "parallel" | "serial" | "limited" | "too_quick" | "failed";
  takes: number;
  callMs?: number;
  problem?: string;
}

/** Below this, a call measures this machine and not the backend. */
const TOO_QUICK_MS = 15;
/** This part of the ideal counts as parallel: backends slow down a little under load. */
const NEARLY = 0.7;

/** Calls a second at a level: by its median call, which one slow call does not change. */
export function callsPerSecond({ concurrency, callsMs }: Level): number {
  return (concurrency * 1_000) / Math.max(median(callsMs), 0.001);
}

/** Judges levels in growing order, the first one with one call at a time. */
export function judgeParallelism(levels: readonly Level[]): Parallelism {
  const broken = levels.find(({ failure }) => failure);
  const whole = levels.slice(0, broken ? levels.indexOf(broken) : undefined);
  if (broken?.failure && (!broken.failure.isLimit || whole.length === 0)) {
    return { status: "failed", takes: 0, problem: broken.failure.problem };
  }
  if (whole.length === 0) return { status: "failed", takes: 0, problem: "no call was made" };
  // The time of a call that does not wait, from any level: the first calls find everything cold.
  const callMs = Math.min(...whole.map((level) => median(level.callsMs)));
  const best = Math.max(...whole.map((level) => (level.concurrency * callMs) / median(level.callsMs)));
  const most = whole.at(-1)?.concurrency ?? 1;
  if (callMs < TOO_QUICK_MS) return { status: "too_quick", takes: most, callMs };
  if (broken?.failure) return { status: "limited", takes: most, problem: broken.failure.problem };
  if (best >= most * NEARLY) return { status: "parallel", takes: most };
  return { status: "serial", takes: Math.max(1, Math.round(best)) };
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}
