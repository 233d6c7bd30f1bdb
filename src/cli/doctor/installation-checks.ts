/** The checks of Redis, the workers and the model. Pure. */
import { formatPlural } from "../figures.ts";
import type { Check } from "./check.ts";

const agents = (count: number) => formatPlural(count, "agent");
const are = (count: number) => (count === 1 ? "is" : "are");

/** By stable name. */
export const INSTALLATION_CHECKS = {
  redis_settings: {
    area: "redis",
    severity: "warn",
    what: () => "a setting of Redis",
    todo: "",
  },
  redis_trouble: {
    area: "redis",
    severity: "error",
    what: () => "Redis takes no new work",
    todo: "see to Redis; work goes on by itself when it takes writes again",
  },
  redis_memory: {
    area: "redis",
    severity: "warn",
    what: () => "Redis is nearly full",
    todo: "raise maxmemory, or ack replies that nobody reads",
  },
  clock_skew: {
    area: "workers",
    severity: "warn",
    what: (count) => `${formatPlural(count, "clock")} ${are(count)} off by more than 5 s against Redis'`,
    todo: "synchronise the clocks (NTP); deadlines keep Redis' time, but logs and stamps will mislead",
  },
  no_workers: {
    area: "workers",
    severity: "warn",
    what: () => "no worker is live",
    todo: "start one: subagent-queue worker, with the same REDIS_URL and SUBAGENT_PREFIX",
  },
  work_without_workers: {
    area: "workers",
    severity: "error",
    what: (count) => `no worker is live, and ${agents(count)} ${count === 1 ? "waits" : "wait"} for one`,
    todo: "start one: subagent-queue worker, with the same REDIS_URL and SUBAGENT_PREFIX",
  },
  wakes_not_taken: {
    area: "workers",
    severity: "error",
    what: (count) =>
      `${formatPlural(count, "wake")} ${count === 1 ? "waits" : "wait"} while workers have free places`,
    todo: "restart those that take nothing; a worker that was killed is forgotten after 30 s",
  },
  paused: {
    area: "workers",
    severity: "warn",
    what: () => "an operator paused the installation: no model call begins",
    todo: "subagent-queue resume, when it may go on",
  },
  provider_denied: {
    area: "workers",
    severity: "error",
    what: (count) =>
      `${formatPlural(count, "provider gate")} ${are(count)} closed: the credential is refused`,
    todo: "give the workers a key that works (ANTHROPIC_API_KEY) and restart them; what waits goes on by itself",
  },
  provider_closed: {
    area: "workers",
    severity: "warn",
    what: (count) =>
      `${formatPlural(count, "provider gate")} ${are(count)} closed or slowed: the provider asked for less`,
    todo: "nothing is lost, it opens by itself; less often with a lower SUBAGENT_CONCURRENCY or a higher limit",
  },
  queue_paused: {
    area: "workers",
    severity: "error",
    what: () => "the wake queue itself was paused: no worker takes anything",
    todo: "resume it with whatever paused it (a Bull Board that may write, BullMQ's Queue.resume)",
  },
  mixed_versions: {
    area: "workers",
    severity: "warn",
    what: (count) => `the workers run ${count} versions`,
    todo: "finish the upgrade: agents written by the newer version wait for its workers",
  },
  differing_tools: {
    area: "workers",
    severity: "warn",
    what: (count) => `${formatPlural(count, "tool")} ${are(count)} missing at some workers`,
    todo: "give all workers the same tools, or prefixes of their own: any of them may take any agent",
  },
  differing_models: {
    area: "workers",
    severity: "warn",
    what: (count) => `the workers announce ${count} models`,
    todo: "give all workers the same provider and SUBAGENT_MODEL, or prefixes of their own",
  },
  serial_model: {
    area: "model",
    severity: "warn",
    what: () => "the model backend does not answer side by side",
    todo: "",
  },
  model_failed: {
    area: "model",
    severity: "error",
    what: () => "the model backend could not be measured",
    todo: "",
  },
} as const satisfies Record<string, Check>;
