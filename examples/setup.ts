/** What every example needs around it: a worker in this process, and a model for it to call. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, createClient } from "subagent-queue";
import { createOfflineModel, type Scenario } from "subagent-queue/testing";
import {
  createAnthropicModel,
  createLogger,
  createWorker,
  parseRoots,
  type WorkerOptions,
} from "subagent-queue/worker";

/** A small project for sub-agents to look at. */
export const SAMPLE = join(import.meta.dirname, "sample");

/** `opens`: a directory the sub-agents may read. `offline`: what the offline model says where its rules would not do. */
export interface SetupOptions {
  opens?: string;
  offline?: Scenario;
  /** What else the worker is made of. */
  worker?: Partial<WorkerOptions>;
  /** MCP servers whose tools the sub-agents get. */
  mcpServers?: WorkerOptions["mcpServers"];
}

/** A running worker. `model` and `baseURL`: where a model that plays the parent is to be found. */
export interface Setup {
  client: Client;
  parentId: string;
  redisUrl: string;
  model: string;
  apiKey: string;
  baseURL: string;
  workspaceRoot: string;
  stop(): Promise<void>;
}

/** Starts a worker on REDIS_URL. With ANTHROPIC_API_KEY it calls the real model, else the offline one, which is no LLM. */
export async function setUp({
  opens,
  offline: scenario,
  mcpServers = {},
  worker: more = {},
}: SetupOptions = {}): Promise<Setup> {
  const { REDIS_URL: redisUrl = "redis://127.0.0.1:6379", ANTHROPIC_API_KEY: key } = process.env;
  const prefix = "examples";
  const model = key ? "claude-sonnet-5-5" : "offline-1";
  const client = createClient({ redisUrl, prefix, model });
  await client.start(); // a worker would wait for a Redis that is not there
  const offline = createOfflineModel(scenario ? { scenario } : {});
  if (!key) await offline.start();
  const apiKey = key ?? "offline";
  const baseURL = key ? "https://api.anthropic.com" : offline.url;

  const provider = createAnthropicModel({ apiKey, baseUrl: baseURL });
  const workspaceRoot = await mkdtemp(join(tmpdir(), "subagent-queue-"));
  const opened = parseRoots(opens ? `${opens}:ro` : "");
  const roots = "roots" in opened ? opened.roots : [];
  const logger = createLogger({ level: "error" });
  const work = { workspaceRoot, roots, mcpServers, logger, ...more };
  const worker = createWorker({ redisUrl, prefix, model: provider, ...work });
  await worker.start();
  return {
    client,
    parentId: `example-${randomBytes(6).toString("hex")}`,
    redisUrl,
    model,
    apiKey,
    baseURL,
    workspaceRoot,
    async stop() {
      await client.stop();
      await worker.stop();
      await provider.stop();
      await offline.stop();
      await rm(workspaceRoot, { recursive: true, force: true });
    },
  };
}
