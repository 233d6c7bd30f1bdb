/**
 * The repairs of `--fix`: each is safe at any time. Idempotent.
 *
 * 1. Agents change only as a sweeper changes them: a hint, then its check. `repair` only reads the record, inside its script.
 * 2. No reply is acked. No workspace is deleted if it changed within 30 days or its agent lives.
 * 3. A key of the wrong type is moved aside, never deleted; a key whose type is right by then stays.
 */
import { join } from "node:path";
import { inBatches } from "../../shared/batch.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import type { MistypedKey } from "../../shared/redis/survey.ts";
import { createSweeper } from "../../worker/sweeper.ts";
import { sentence } from "../terminal/numbers.ts";
import { type Repair, repairOf } from "./checks.ts";
import type { Installation } from "./examine.ts";
import type { Facts } from "./facts.ts";
import type { Finding, Repaired } from "./report.ts";
import { agentStateOf, deleteWorkspace, isUntouchedSince, OLD_WORKSPACE_MS } from "./workspaces.ts";

const BATCH = 100;

/** Repairs the findings; examines again if a key was moved aside, because that uncovers troubles of its agents. */
export async function repair(
  installation: Installation,
  found: Facts,
  examineAgain: () => Promise<Facts>,
): Promise<void> {
  const { deadlines, inspection } = installation;
  await inBatches(found.mistyped, BATCH, (mismatch) => moveAside(installation, mismatch));
  const facts = found.mistyped.length > 0 ? await examineAgain() : found;
  const suspects = (by: Repair): AgentAddress[] =>
    facts.suspects
      .filter(({ troubles }) => troubles.some((trouble) => repairOf(trouble)?.by === by))
      .map(({ snapshot }) => snapshot.address);
  await inBatches(suspects("repair"), BATCH, (address) => inspection.repair(address));
  const overdue = suspects("check");
  await inBatches(overdue, BATCH, (address) => deadlines.hint(address, 0));
  if (overdue.length > 0 || facts.strayMembers.length > 0) await createSweeper(installation).tick();
  await deleteOld(installation, facts);
}

/** Moves a key to a new name in its slot, and back if a key of the right type had replaced it in between. */
async function moveAside({ redis, clock }: Installation, { key, expected }: MistypedKey): Promise<void> {
  const type = await redis.type(key);
  if (type === expected || type === "none") return;
  const aside = `${key.replace(/^[^}]*\}:/, "$&aside:")}:${clock.now()}`;
  await redis.rename(key, aside);
  if ((await redis.type(aside)) === expected) await redis.renamenx(aside, key);
}

/** Deletes old workspaces; checks each again, in Redis and on disk, right before the deletion. */
async function deleteOld(installation: Installation, { hostNowMs, workspaces }: Facts): Promise<void> {
  const { root, directories } = workspaces;
  for (const found of directories.filter(({ isDeletable }) => isDeletable)) {
    const isOld = await isUntouchedSince(join(root, found.path), hostNowMs - OLD_WORKSPACE_MS);
    if (isOld && (await agentStateOf(installation, found)) !== "live")
      await deleteWorkspace(root, found).catch((error: unknown) =>
        installation.logger.warn({ path: found.path, problem: String(error) }, "Workspace not deleted"),
      );
  }
}

/** Returns the findings that the second examination no longer has, in the words of the table of checks. */
export function repairedOf(before: readonly Finding[], after: readonly Finding[]): Repaired[] {
  return before.flatMap(({ check, names, count }) => {
    const left = after.find((other) => other.check === check);
    const gone = count - (left?.count ?? 0);
    const fix = repairOf(check);
    if (gone <= 0 || !fix) return [];
    const which = names.filter((name) => !left?.names.includes(name));
    return [{ check, did: sentence(fix.did, gone), count: gone, names: which }];
  });
}
