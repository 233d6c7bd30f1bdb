/**
 * Metrics of an API process in Prometheus format: requests by method, status class and time, open requests, pushes to
 * webhooks, and of the installation the wakes by state and the oldest entry to push. Labels come from closed sets, never from a request.
 */
import type { Request, RequestHandler, Response } from "express";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { type Client, internalsOf } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import { readOldestUnpushedMs, readWakes } from "../../shared/redis/survey.ts";
import { openWakeQueueForReading } from "../../shared/redis/wake-queue.ts";
import type { Mount } from "./mount.ts";
import { methodRefusal, READING, sendProblem } from "./problem.ts";

const DOOR = { path: "/metrics", scope: "admin", isForBrowsers: true } as const;
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "DELETE"]);
const SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300];

/** Parents whose oldest entry to push is read; those due first come first. */
const PARENTS_ASKED = 1_000;

/** The metrics of one API process. */
export interface ApiMetrics {
  /** Counts every request. */
  readonly count: RequestHandler;
  /** Counts a webhook's answer to a push. */
  readonly pushed: (result: string) => void;
  readonly mount: Mount;
}

/** Creates the metrics, all at 0. */
export function createApiMetrics(client: Client, clock: Clock): ApiMetrics {
  const registry = new Registry();
  const registers = [registry];
  const requests = new Counter({
    name: "subagent_api_requests_total",
    help: "Requests answered, by method and class of status; `gone`: the client left before",
    labelNames: ["method", "status"],
    registers,
  });
  const seconds = new Histogram({
    name: "subagent_api_request_duration_seconds",
    help: "Time to the end of the answer; waits and streams included",
    buckets: SECONDS,
    registers,
  });
  const open = new Gauge({ name: "subagent_api_open_requests", help: "Requests being answered", registers });
  const { wakes, pushes, unpushed } = metricsBesideRequests(registry);
  return {
    pushed: (result) => pushes.inc({ result }),
    count(request, response, next) {
      const fromMs = clock.monotonicMs();
      open.inc();
      response.once("close", () => {
        open.dec();
        const method = METHODS.has(request.method) ? request.method : "other";
        const status = response.writableFinished ? `${Math.floor(response.statusCode / 100)}xx` : "gone";
        requests.inc({ method, status });
        seconds.observe((clock.monotonicMs() - fromMs) / 1_000);
      });
      next();
    },
    mount: {
      ...DOOR,
      handler: () => (request: Request, response: Response) => {
        if (!READING.includes(request.method))
          return sendProblem(response, methodRefusal(request, response, READING));
        Promise.all([setWakes(client, wakes), setUnpushed(client, unpushed)])
          .then(() => registry.metrics())
          .then(
            (text) => void response.set("Content-Type", registry.contentType).send(text),
            (error: unknown) => sendProblem(response, error),
          );
      },
    },
  };
}

function metricsBesideRequests(registry: Registry) {
  const registers = [registry];
  const wakes = new Gauge({
    name: "subagent_wakes",
    help: "Jobs of the wake queue, by state",
    labelNames: ["state"],
    registers,
  });
  const pushes = new Counter({
    name: "subagent_webhook_pushes_total",
    help: "Attempts to push an entry to a webhook, by result",
    labelNames: ["result"],
    registers,
  });
  const unpushed = new Gauge({
    name: "subagent_webhook_oldest_unpushed_seconds",
    help: "Age of the oldest entry that waits for its push, of the whole installation",
    registers,
  });
  return { wakes, pushes, unpushed };
}

async function setUnpushed(client: Client, gauge: Gauge): Promise<void> {
  const { redis, keys, read } = await internalsOf(client).open();
  const oldestMs = await read(() => readOldestUnpushedMs(redis, keys, PARENTS_ASKED));
  gauge.set(oldestMs / 1_000);
}

async function setWakes(client: Client, gauge: Gauge<"state">): Promise<void> {
  const { redis, keys, read } = await internalsOf(client).open();
  const queue = await openWakeQueueForReading(redis, keys);
  try {
    const { waiting, active, delayed } = await read(() => readWakes(queue));
    for (const [state, count] of Object.entries({ waiting, active, delayed })) gauge.set({ state }, count);
  } finally {
    await queue.close().catch(() => {});
  }
}
