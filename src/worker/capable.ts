/** Leaves a run whose parent named tools that this worker lacks to one that has more of them, as long as such a one lives. */
import type { AgentAddress } from "../shared/protocol/keys.ts";
import type { RunContext } from "./run-context.ts";

/**
 * Whether a live worker has every tool of the agent's allowlist that this one has, and at least one that it lacks. Of two
 * workers at most one can say so of the other: no wake goes round in circles.
 */
export async function isForAnother(
  { store, workers, toolbox, logger }: RunContext,
  address: AgentAddress,
): Promise<boolean> {
  const { tools, unknown } = toolbox.resolve((await store.allowlist(address)) ?? []);
  if (unknown.length === 0) return false;
  const another = (await workers.list()).find(
    (worker) =>
      tools.every(({ name }) => worker.tools.includes(name)) &&
      unknown.some((name) => worker.tools.includes(name)),
  );
  if (another)
    logger.debug({ uid: address.uid, tools: unknown, worker: another.id }, "Left to another worker");
  return another !== undefined;
}
