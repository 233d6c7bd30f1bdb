/** `subagent-queue api` as processes of their own, as they are run in production, on the Redis of a stage. */
import { type NodeProcess, spawnBuilt } from "../helpers/processes.ts";
import type { Stage } from "../stage/stage.ts";

/** Machines may be busy. */
const STARTS_WITHIN_MS = 60_000;

/** An API process. */
export interface CommandLineApi extends NodeProcess {
  /** `http://127.0.0.1:41234`. */
  readonly url: string;
}

/** Starts the built `subagent-queue api`; killed with the test. `port` default 0: any free one. */
export async function startCommandLineApi(
  { url: redisUrl, prefix, workspaceRoot }: Pick<Stage, "url" | "prefix" | "workspaceRoot">,
  { port = 0, args = [] }: { port?: number; args?: readonly string[] } = {},
): Promise<CommandLineApi> {
  const child = await spawnBuilt(["api", "--port", String(port), "--rate", "1000000", ...args], {
    env: {
      REDIS_URL: redisUrl,
      SUBAGENT_PREFIX: prefix,
      SUBAGENT_WORKSPACES: workspaceRoot,
      // The workers of a stage say no model.
      SUBAGENT_MODEL: "offline-1",
      SUBAGENT_LOG_LEVEL: "error",
    },
  });
  const line = await child.waitForLine(/^ready: api /, { timeoutMs: STARTS_WITHIN_MS });
  return Object.defineProperty(child, "url", { value: line.split(" ")[2] }) as CommandLineApi;
}
