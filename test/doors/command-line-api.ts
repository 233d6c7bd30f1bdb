/** Starts `subagent-queue api` as its own process, as in production, on the Redis of a stage. */
import { type NodeProcess, spawnBuilt } from "../helpers/processes.ts";
import type { Stage } from "../stage/stage.ts";

/** Startup timeout (ms), long because the machine may be busy. */
const STARTS_WITHIN_MS = 60_000;

/** An API process. */
export interface CommandLineApi extends NodeProcess {
  /** `http://127.0.0.1:41234`. */
  readonly url: string;
}

/** Starts the built `subagent-queue api`; the test's end kills it. `port` default 0: any free port. */
export async function startCommandLineApi(
  { url: redisUrl, prefix, workspaceRoot }: Pick<Stage, "url" | "prefix" | "workspaceRoot">,
  { port = 0, args = [] }: { port?: number; args?: readonly string[] } = {},
): Promise<CommandLineApi> {
  const child = await spawnBuilt(["api", "--port", String(port), "--rate", "1000000", ...args], {
    env: {
      REDIS_URL: redisUrl,
      SUBAGENT_PREFIX: prefix,
      SUBAGENT_WORKSPACES: workspaceRoot,
      // The workers of a stage announce no model.
      SUBAGENT_MODEL: "offline-1",
      SUBAGENT_LOG_LEVEL: "error",
    },
  });
  const line = await child.waitForLine(/^ready: api /, { timeoutMs: STARTS_WITHIN_MS });
  return Object.defineProperty(child, "url", { value: line.split(" ")[2] }) as CommandLineApi;
}
