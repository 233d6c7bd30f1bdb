/** The setup of every example: a worker in this process, and a model that it calls. */
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

/** A small project that sub-agents read. */
export const SAMPLE = join(import.meta.dirname, "sample");

/** `opens`: a directory that the sub-agents may read. `offline`: a script for what the offline model's rules cannot do. */
export interface SetupOptions {
  opens?: string;
  offline?: Scenario;
  /** Further options of the worker. */
  worker?: Partial<WorkerOptions>;
  /** MCP servers whose tools the sub-agents get. */
  mcpServers?: WorkerOptions["mcpServers"];
}

/** A running worker. `model`, `apiKey` and `baseURL`: access to the model for a parent that is a model. */
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
  await client.start(); // rejects if Redis is unreachable; a worker would wait for it
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
