/** The banner of a running service: its version, Redis, workers and model. Pure. */
import { type Config, OFFLINE_MODEL } from "../../shared/config.ts";
import type { WorkerAnnouncement } from "../../shared/protocol/worker.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import type { OpenRoot } from "../../worker/tools/roots.ts";
import { formatPlural } from "./numbers.ts";
import type { Style } from "./output.ts";
import { wrap } from "./text.ts";

/** Warning that is printed wherever the offline model answers. */
export const OFFLINE_WARNING =
  "offline model: answers by rule, NOT an LLM; set ANTHROPIC_API_KEY for a real one";

/** Live workers of other processes, which do the work. */
export interface OtherWorkers {
  workers: readonly WorkerAnnouncement[];
  /** URL of their Redis without its password. */
  on: string;
  /** Model of agents that name none. */
  model: string;
}

/** Input of the banner. */
export interface BannerFacts {
  version: string;
  config: Config;
  /** Description of the Redis in use. */
  redis: string;
  roots: readonly OpenRoot[];
  /** Sentence: how commands run in the worker started here, or why they do not. */
  bash?: string;
  /** Absent: a worker was started here. */
  others?: OtherWorkers;
}

const LABEL_CELLS = 13;

/** Returns the banner's lines, wrapped to `columns`; the last one is empty. */
export function renderBanner(
  { version, config, redis, roots, bash, others }: BannerFacts,
  columns: number,
  style: Style,
): string[] {
  const field = (label: string, value: string, isWarning = false) => {
    const [first = "", ...rest] = wrap(value, columns - LABEL_CELLS - 3);
    const dressed = (text: string) => (isWarning ? style("bold", text) : text);
    return [
      `  ${style("dim", label.padEnd(LABEL_CELLS))}${dressed(first)}`,
      ...rest.map((line) => `  ${" ".repeat(LABEL_CELLS)}${dressed(line)}`),
    ];
  };
  const head = [`${style("bold", "subagent-queue")} ${style("dim", version)}`, ...field("Redis", redis)];
  if (others) {
    const { workers, on, model } = others;
    return [
      ...head,
      ...field("Workers", `${formatPlural(workers.length, "worker")} on ${on}, none started here`),
      ...field("Model", theirModelText(others), areOffline(workers) || model === OFFLINE_MODEL),
      ...field("Directories", "those of the workers, not this one"),
      "",
    ];
  }
  return [
    ...head,
    ...field("Model", modelText(config), !config.provider),
    ...field("Workspaces", config.workspaceRoot),
    ...field(
      "Directories",
      roots.length === 0 ? "only each agent's workspace" : roots.map(rootText).join(", "),
    ),
    ...(bash === undefined ? [] : field("Commands", bash, config.bash.mode === "unsandboxed")),
    "",
  ];
}

/** Returns the model in words: its id and provider, or the warning about the offline model. */
export function modelText({ model, provider }: Config): string {
  if (!provider) return OFFLINE_WARNING;
  return provider.baseUrl === undefined ? model : `${model} at ${withoutPassword(provider.baseUrl)}`;
}

function theirModelText({ workers, model }: OtherWorkers): string {
  if (areOffline(workers)) return "the workers have the offline model: it answers by rule, NOT an LLM";
  const unknown = "offline-1: no model is set here or by the workers; set SUBAGENT_MODEL";
  return model === OFFLINE_MODEL ? unknown : `${model}, answered by the workers' provider`;
}

function rootText({ path, mode }: OpenRoot): string {
  return `${path} (${mode === "ro" ? "read-only" : "read and write"})`;
}

/** Returns true if all these workers announce the offline model. */
export function areOffline(workers: readonly WorkerAnnouncement[]): boolean {
  return workers.every((worker) => worker.model === OFFLINE_MODEL);
}
