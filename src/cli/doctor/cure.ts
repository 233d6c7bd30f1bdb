/**
 * What `--fix` does: only what is safe at any time, through the doors that everybody uses. Idempotent.
 *
 * 1. No record is written: deadlines are touched, the sweeper looks, `mend` asks the record inside.
 * 2. No reply is acked, and no workspace deleted that changed within 30 days or whose agent lives.
 */
import { join } from "node:path";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import { inBatches } from "../../shared/redis/batches.ts";
import { createSweeper } from "../../worker/sweeper.ts";
import { type CheckName, didAbout } from "./checks.ts";
import type { Facts, WorkspaceFacts } from "./facts.ts";
import type { Installation } from "./installation.ts";
import { isDeletable } from "./judge-workspaces.ts";
import type { Cured, Finding } from "./report.ts";
import { deleteWorkspace, isUntouchedSince, OLD_WORKSPACE_MS } from "./workspace-survey.ts";
import { fateOf } from "./workspaces.ts";

const BATCH = 100;

/** Troubles that a look cures: of the sweeper, as soon as the deadline set says so. */
const NEED_A_LOOK: readonly CheckName[] = [
  "stale_queued",
  "stale_running",
  "stale_waiting",
  "overdue_age",
  "overdue_idle",
  "unswept",
  "unwatched",
  "stray_members",
];
/** Troubles of the keys around a record. */
const NEED_MENDING: readonly CheckName[] = ["leaked_slots", "uncounted", "unnamed", "orphaned_keys"];

/** Repairs what was found; a second examination tells what has become of it. */
export async function cure(
  installation: Installation,
  facts: Facts,
  workspaces: WorkspaceFacts,
): Promise<void> {
  const { deadlines, inspection } = installation;
  const having = (checks: readonly CheckName[]): AgentAddress[] =>
    facts.suspects
      .filter((suspect) => suspect.checks.some((check) => checks.includes(check)))
      .map(({ sight }) => sight.address);
  await inBatches(having(NEED_MENDING), BATCH, (address) => inspection.mend(address));
  const toLookAt = having(NEED_A_LOOK);
  await inBatches(toLookAt, BATCH, (address) => deadlines.touch(address, 0));
  if (toLookAt.length > 0 || facts.strangers.length > 0) await createSweeper(installation).tick();
  await deleteOld(installation, facts, workspaces);
}

/** Each is asked once more, in Redis and on the disk, right before it goes. */
async function deleteOld(
  installation: Installation,
  { hostNowMs }: Facts,
  { root, directories }: WorkspaceFacts,
): Promise<void> {
  for (const found of directories.filter(isDeletable)) {
    const isOld = await isUntouchedSince(join(root, found.path), hostNowMs - OLD_WORKSPACE_MS);
    if (isOld && (await fateOf(installation, found)) !== "live") await deleteWorkspace(root, found);
  }
}

/** What has gone from one examination to the next, by what `--fix` says about it. */
export function curedOf(before: readonly Finding[], after: readonly Finding[]): Cured[] {
  return before.flatMap((finding) => {
    const { check, names, count } = finding;
    const left = after.find((other) => other.check === check);
    const gone = count - (left?.count ?? 0);
    const did = gone > 0 ? didAbout(check, gone) : undefined;
    if (did === undefined) return [];
    return [{ check, did, count: gone, names: names.filter((name) => !left?.names.includes(name)) }];
  });
}
