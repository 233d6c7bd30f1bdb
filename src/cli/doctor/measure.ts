/** `doctor --measure`: makes tiny calls to the model backend, more and more side by side, and says what it takes. */
import { createOfflineModel } from "../../offline/server.ts";
import type { Clock } from "../../shared/clock.ts";
import { createAnthropicModel } from "../../worker/model/anthropic.ts";
import type { Model, ModelRequest } from "../../worker/model/model.ts";
import { modelText } from "../banner.ts";
import { type Closing, createClosing } from "../closing.ts";
import type { CommandContext } from "../command.ts";
import { formatPlural } from "../figures.ts";
import { openModel } from "../local-service.ts";
import { findingOf } from "./checks.ts";
import { callsPerSecond, judgeParallelism, type Level, type Parallelism } from "./parallelism.ts";
import type { DoctorReport, Finding } from "./report.ts";

/** Calls side by side, and how many calls are made so. */
const LEVELS = [
  { concurrency: 1, calls: 4 },
  { concurrency: 2, calls: 6 },
  { concurrency: 4, calls: 12 },
  { concurrency: 8, calls: 24 },
] as const;
/** The first call opens connections and is not counted. */
const WARM_UP_CALLS = 1;
const MAX_TOKENS = 16;
/** A call that takes longer than this has failed. */
const CALL_LIMIT_MS = 60_000;
/** The built-in offline model answers after this time, as something that is far away would. */
const OFFLINE_LATENCY_MS = 100;

/** What came of measuring. */
export interface Measurement {
  area: DoctorReport["areas"][number];
  findings: Finding[];
  levels: DoctorReport["measured"];
}

/** Measures the configured backend, or the offline model; says beforehand what it will spend. */
export async function measure(context: CommandContext): Promise<Measurement> {
  const { config, output, clock, signal } = context;
  const total = WARM_UP_CALLS + LEVELS.reduce((sum, { calls }) => sum + calls, 0);
  const backend = config.provider
    ? modelText(config)
    : `the built-in offline model (${OFFLINE_LATENCY_MS} ms a call)`;
  output.note(
    `Measuring ${backend}: ${formatPlural(total, "call")} of at most ${MAX_TOKENS} output tokens each.`,
  );
  const closing = createClosing();
  try {
    const model = config.provider ? await openModel(context, closing) : await openOffline(clock, closing);
    const levels = await callAtAllLevels(model, config.model, clock, signal);
    return measurementOf(levels, config.concurrency);
  } finally {
    await closing.close();
  }
}

async function openOffline(clock: Clock, closing: Closing): Promise<Model> {
  const offline = createOfflineModel({ latencyMs: OFFLINE_LATENCY_MS });
  closing.add(() => offline.stop());
  await offline.start();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: offline.url, clock });
  closing.add(() => model.stop());
  return model;
}

/** Calls at each level until one fails. */
export async function callAtAllLevels(
  model: Model,
  modelId: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<Level[]> {
  const call = (concurrency: number, calls: number) =>
    callAtLevel(model, modelId, clock, signal, concurrency, calls);
  const { failure } = await call(1, WARM_UP_CALLS);
  if (failure) return [{ concurrency: 1, callsMs: [], failure }];
  const levels: Level[] = [];
  for (const { concurrency, calls } of LEVELS) {
    const level = await call(concurrency, calls);
    levels.push(level);
    if (level.failure) break;
  }
  return levels;
}

async function callAtLevel(
  model: Model,
  modelId: string,
  clock: Clock,
  signal: AbortSignal,
  concurrency: number,
  calls: number,
): Promise<Level> {
  const callsMs: number[] = [];
  let left = calls;
  let failure: Level["failure"];
  const lane = async () => {
    while (left > 0 && !failure && !signal.aborted) {
      left -= 1;
      const startedMs = clock.monotonicMs();
      const problem = await callOnce(model, modelId, clock, signal);
      if (problem) failure ??= problem;
      else callsMs.push(clock.monotonicMs() - startedMs);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  if (signal.aborted) failure ??= { isLimit: false, problem: "it was interrupted" };
  return { concurrency, callsMs, ...(failure && { failure }) };
}

async function callOnce(
  model: Model,
  modelId: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<Level["failure"]> {
  const ending = new AbortController();
  const end = () => ending.abort();
  signal.addEventListener("abort", end, { once: true });
  const limit = clock.timeout(CALL_LIMIT_MS, end);
  try {
    const outcome = await model.call(requestFor(modelId), { signal: ending.signal });
    if (outcome.status === "turn") return undefined;
    if (outcome.status === "aborted")
      return { isLimit: false, problem: `a call took longer than ${CALL_LIMIT_MS / 1_000} s` };
    const { kind, message } = outcome.failure;
    return { isLimit: kind === "rate_limited" || kind === "overloaded", problem: message };
  } finally {
    limit.cancel();
    signal.removeEventListener("abort", end);
  }
}

function requestFor(model: string): ModelRequest {
  const content = [{ type: "text" as const, text: "Answer with the word ok." }];
  return {
    model,
    system: "",
    tools: [],
    toolChoice: "auto",
    messages: [{ role: "user", content }],
    maxTokens: MAX_TOKENS,
  };
}

/** What is said about the levels to somebody whose workers run `concurrency` runs at a time. */
export function measurementOf(levels: readonly Level[], concurrency: number): Measurement {
  const found = judgeParallelism(levels);
  const whole = levels.filter(({ failure }) => !failure);
  const figures = whole.map((level) => ({
    concurrency: level.concurrency,
    calls: level.callsMs.length,
    calls_per_second: Math.round(callsPerSecond(level) * 100) / 100,
  }));
  const findings = findingsAbout(found, concurrency);
  const speeds = figures
    .map((level) => `${level.concurrency}: ${level.calls_per_second.toFixed(1)}/s`)
    .join("  ");
  return {
    area: {
      area: "model",
      severity: findings[0]?.severity ?? "ok",
      summary: [sentenceAbout(found), speeds].filter(Boolean).join(" · "),
    },
    findings,
    levels: figures,
  };
}

function sentenceAbout(found: Parallelism): string {
  switch (found.status) {
    case "parallel":
      return `answers ${found.takes} calls side by side without waiting`;
    case "serial":
      return `answers ${formatPlural(found.takes, "call")} at a time`;
    case "limited":
      return `refuses more than ${formatPlural(found.takes, "call")} at a time`;
    case "too_quick":
      return `a call takes ${found.callMs.toFixed(1)} ms: too quick to tell`;
    case "failed":
      return "not measured";
  }
}

function findingsAbout(found: Parallelism, concurrency: number): Finding[] {
  if (found.status === "failed") {
    return findingOf("model_failed", [], {
      count: 1,
      what: `the model backend could not be measured: ${found.problem}`,
    });
  }
  if (found.status !== "serial" && found.status !== "limited") return [];
  // While one run uses its tools another one may call: twice as many keep the backend busy.
  const enough = 2 * found.takes;
  if (concurrency <= enough) return [];
  const does = found.status === "serial" ? "answers" : "takes no more than";
  const then = found.status === "serial" ? "only queues" : "is refused and tried again later";
  return findingOf("serial_model", [], {
    count: 1,
    what: `the model backend ${does} ${formatPlural(found.takes, "call")} at a time: SUBAGENT_CONCURRENCY above ${enough} ${then}`,
    todo: `set SUBAGENT_CONCURRENCY=${enough} for all workers together (it is ${concurrency} here)`,
  });
}
