/** `doctor --measure`: makes tiny calls to the model backend, more and more side by side, and says what it takes. */
import type { Clock } from "../../shared/clock.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import type { CallControl, Model, ModelRequest } from "../../worker/model/model.ts";
import { messageJson, requestHead } from "../../worker/model/request.ts";
import type { CommandContext } from "../command.ts";
import { createDisposables } from "../local/disposables.ts";
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
  const backend = config.provider ? modelText(config) : `the offline model (${OFFLINE_LATENCY_MS} ms a call)`;
  output.note(
    `Measuring ${backend}: ${formatPlural(total, "call")} of at most ${MAX_TOKENS} output tokens each.`,
  );
  const disposables = createDisposables();
  try {
    const model = await openModel(context, disposables, OFFLINE_LATENCY_MS);
    const levels = await callAtAllLevels({ model, modelId: config.model, clock, signal });
    return measurementOf(levels, config.concurrency);
  } finally {
    await disposables.close();
  }
}

/** What is called, and what ends the calls. */
interface Backend {
  model: Model;
  modelId: string;
  clock: Clock;
  signal: AbortSignal;
}

/** Calls at each level until one fails. */
export async function callAtAllLevels(backend: Backend): Promise<Level[]> {
  const levels: Level[] = [];
  for (const { concurrency, calls } of LEVELS) {
    const level: Level = { concurrency, callsMs: [] };
    let left = calls;
    const callInTurn = async () => {
      while (left-- > 0 && !level.failure) {
        const startedMs = backend.clock.monotonicMs();
        const problem = await callOnce(backend);
        if (problem) level.failure ??= problem;
        else level.callsMs.push(backend.clock.monotonicMs() - startedMs);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, callInTurn));
    levels.push(level);
    if (level.failure) break;
  }
  return levels.length > 1 ? levels.slice(1) : levels;
}

/** Undefined: it was answered. */
async function callOnce({ model, modelId, clock, signal }: Backend): Promise<Level["failure"]> {
  const deadlineMs = clock.monotonicMs() + CALL_LIMIT_MS;
  const control: CallControl = { mayBegin: () => !signal.aborted, abortCall: null, deadlineMs };
  const forget = onAbort(signal, () => control.abortCall?.("measuring was interrupted"));
  const outcome = await model.call(requestFor(modelId), control).finally(forget);
  if (signal.aborted) return { isLimit: false, problem: "it was interrupted" };
  if (outcome.status === "answer") return undefined;
  if (outcome.status === "aborted")
    return { isLimit: false, problem: `a call took longer than ${CALL_LIMIT_MS / 1_000} s` };
  const { kind, message } = outcome.failure;
  return { isLimit: kind === "rate_limited" || kind === "overloaded", problem: message };
}

function requestFor(model: string): ModelRequest {
  return {
    model,
    head: requestHead({ maxTokens: MAX_TOKENS, system: "", tools: [] }),
    messages: messageJson({ role: "user", content: [{ type: "text", text: "Answer with the word ok." }] }),
    cachedLength: 0,
    extra: "",
    purchaseId: `measure-${newRequestKey()}`,
    maxTokens: MAX_TOKENS,
    stream: false,
  };
}

/** What is said about the levels, for workers that have `concurrency` runs at a time. */
export function measurementOf(levels: readonly Level[], concurrency: number) {
  const { summary, finding } = diagnoseParallelism(levels, concurrency);
  const figures = levels
    .filter(({ failure }) => !failure)
    .map((level) => ({
      concurrency: level.concurrency,
      calls: level.callsMs.length,
      calls_per_second: Math.round(callsPerSecond(level) * 100) / 100,
    }));
  const speeds = figures
    .map((level) => `${level.concurrency}: ${level.calls_per_second.toFixed(1)}/s`)
    .join("  ");
  const said = [summary, speeds].filter(Boolean).join(" · ");
  const area = { area: "model", severity: finding?.severity ?? "ok", summary: said } as const;
  return { area, findings: finding ? [finding] : [], levels: figures };
}

/** The calls that were made at one number of calls side by side. */
export interface Level {
  concurrency: number;
  /** How long each call took that brought an answer, ms. */
  callsMs: number[];
  /** The first failure, if any; `isLimit`: the provider asked for fewer calls. */
  failure?: { isLimit: boolean; problem: string };
}

/** Below this, a call measures this machine and not the backend. */
const TOO_QUICK_MS = 15;
/** This part of the ideal counts as parallel: backends slow down a little under load. */
const NEARLY = 0.7;

/** Calls a second at a level: by its median call, which one slow call does not change. */
export function callsPerSecond({ concurrency, callsMs }: Level): number {
  return (concurrency * 1_000) / Math.max(median(callsMs), 0.001);
}

/** How many calls a backend takes at a time, and what is wrong with that; levels in growing order, none behind a failure. */
export function diagnoseParallelism(
  levels: readonly Level[],
  concurrency: number,
): { summary: string; finding?: Finding } {
  const whole = levels.filter(({ failure }) => !failure);
  const failure = levels.find((level) => level.failure)?.failure;
  if (failure && (!failure.isLimit || whole.length === 0)) {
    const what = `the model backend could not be measured: ${failure.problem}`;
    return { summary: "not measured", finding: findingOf("model_failed", "error", what, "") };
  }
  // The time of a call that does not wait, from any level: the first calls find everything cold.
  const callMs = Math.min(...whole.map((level) => median(level.callsMs)));
  const best = Math.max(...whole.map((level) => (level.concurrency * callMs) / median(level.callsMs)));
  const most = whole.at(-1)?.concurrency ?? 1;
  if (callMs < TOO_QUICK_MS) return { summary: `a call takes ${callMs.toFixed(1)} ms: too quick to tell` };
  if (failure) {
    const summary = `refuses more than ${formatPlural(most, "call")} at a time`;
    return {
      summary,
      ...tooMany(most, concurrency, "takes no more than", "is refused and tried again later"),
    };
  }
  if (best >= most * NEARLY) return { summary: `answers ${most} calls side by side without waiting` };
  const takes = Math.max(1, Math.round(best));
  const summary = `answers ${formatPlural(takes, "call")} at a time`;
  return { summary, ...tooMany(takes, concurrency, "answers", "only queues") };
}

/** While one run uses its tools another one may call: twice as many as are taken keep the backend busy. */
function tooMany(takes: number, concurrency: number, does: string, then: string): { finding?: Finding } {
  const enough = 2 * takes;
  if (concurrency <= enough) return {};
  const what = `the model backend ${does} ${formatPlural(takes, "call")} at a time: SUBAGENT_CONCURRENCY above ${enough} ${then}`;
  const todo = `set SUBAGENT_CONCURRENCY=${enough} for all workers together (it is ${concurrency} here)`;
  return { finding: findingOf("serial_model", "warn", what, todo) };
}

function findingOf(check: string, severity: Finding["severity"], what: string, todo: string): Finding {
  return { check, area: "model", severity, what, count: 1, names: [], todo, fixable: false };
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const at = (place: number) => sorted[Math.trunc(place)] ?? 0;
  return (at((sorted.length - 1) / 2) + at(sorted.length / 2)) / 2;
}
