/** The options of a task besides its prompt: in a second argument, or in the same object as the prompt. */
import { z } from "zod";
import type { Question } from "../shared/protocol/reply.ts";
import { readInput } from "./input.ts";
import type { OnWait } from "./task-wait.ts";
import { MAX_WAIT_MS } from "./wait.ts";

const WaitForWorkerMs = z.int().min(0).max(MAX_WAIT_MS).optional();
const TaskCall = z.looseObject({
  signal: z.instanceof(AbortSignal).optional(),
  wait_for_worker_ms: WaitForWorkerMs,
  onWait: z.custom<OnWait>((value) => typeof value === "function", "must be a function").optional(),
  onQuestion: z
    .custom<AnswerQuestions>((value) => typeof value === "function", "must be a function")
    .optional(),
});
/** Answers the questions of a task. */
export type AnswerQuestions = (question: Question) => Promise<string> | string;

/** What a task may be given besides its input. */
export interface TaskOptions {
  /** Aborting it destroys the sub-agent, and the task rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /**
   * Answers what the sub-agent asks with `ask_parent` (an allowlist of tools must name it); without it, it cannot ask. What
   * it throws, the task rejects with.
   */
  onQuestion?: AnswerQuestions | undefined;
  /**
   * Most time in a row without a live worker, 0 or more; then the task rejects with `no_worker` and its sub-agent is destroyed.
   * Counted from the look that finds none, of which there is one every 2 s. Default: it waits.
   */
  wait_for_worker_ms?: number | undefined;
  /** Told within 5 s what the task waits for beside its own work, and each time that changes. */
  onWait?: OnWait | undefined;
}

/** What a task asks for, apart from the options that may stand beside its prompt. */
export function splitTaskInput(input: unknown): TaskOptions & { wish: unknown } {
  if (typeof input === "string") return { wish: { prompt: input } };
  const { signal, onQuestion, wait_for_worker_ms, onWait, ...wish } = readInput(TaskCall, input, "task");
  return { signal, onQuestion, wait_for_worker_ms, onWait, wish };
}

/** The options of a call, each before the one that stands beside the prompt. Throws `invalid_input`. */
export function mergeTaskOptions(beside: TaskOptions, options: TaskOptions): TaskOptions {
  const { signal, onQuestion, wait_for_worker_ms, onWait } = readInput(TaskCall, options, "task");
  return {
    signal: signal ?? beside.signal,
    onQuestion: onQuestion ?? beside.onQuestion,
    wait_for_worker_ms: wait_for_worker_ms ?? beside.wait_for_worker_ms,
    onWait: onWait ?? beside.onWait,
  };
}
