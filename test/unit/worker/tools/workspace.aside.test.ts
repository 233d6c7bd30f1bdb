/** Guarantee: files of an earlier agent are never shown to the next one: not where they cannot be set aside, nor after a kill in between. */
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  watch,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { type Clock, systemClock } from "../../../../src/shared/clock.ts";
import { STAMP_NAME } from "../../../../src/shared/protocol/ids.ts";
import { openWorkspace, readStamp } from "../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { refusal } from "../../../helpers/parents.ts";
import { until } from "../../../helpers/until.ts";

const NOBODY = 65_534;

it.runIf(process.geteuid?.() === 0)(
  "a workspace that still has the files of another agent is refused again",
  async () => {
    const root = mkdtempSync(join(tmpdir(), "workspaces-"));
    closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
    chmodSync(root, 0o755);
    const settings = { root, tenant: "t", parentId: "p", agentId: "a", roots: [], clock: systemClock };
    const { workspace } = await openWorkspace({ ...settings, uid: "first", expected: false });
    writeFileSync(join(workspace.directory, "secret.txt"), "of the first");
    // All may add entries, as in /tmp, but only their owner may rename them.
    const above = dirname(workspace.directory);
    for (let each = above; each !== root; each = dirname(each)) chmodSync(each, 0o755);
    chmodSync(above, 0o1777);
    chownSync(join(above, STAMP_NAME), NOBODY, NOBODY);
    process.seteuid?.(NOBODY);
    onTestFinished(() => process.seteuid?.(0));
    for (let tries = 0; tries < 2; tries += 1) {
      const opening = openWorkspace({ ...settings, uid: "second", expected: false });
      await expect(opening).rejects.toMatchObject(refusal("setup_failed"));
    }
  },
);

/** A directory of workspaces in which agent "a" has files of "first"; `open` opens it for "second". */
async function withFiles() {
  const root = mkdtempSync(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  const settings = { root, tenant: "t", parentId: "p", agentId: "a", roots: [], expected: true };
  const { workspace } = await openWorkspace({ ...settings, uid: "first", clock: systemClock });
  const { directory } = workspace;
  writeFileSync(join(directory, "secret.txt"), "of the first");
  const open = (clock: Clock) => openWorkspace({ ...settings, uid: "second", clock });
  return { above: dirname(directory), directory, open };
}

it("the files of another agent go before there is a stamp: an opener that is killed leaves none over them", async () => {
  const { above, open } = await withFiles();
  rmSync(join(above, STAMP_NAME));
  const seen: string[] = [];
  const watcher = watch(above, (_, name) => void seen.push(name ?? ""));
  await open(systemClock);
  writeFileSync(join(above, "end"), "");
  await until(() => seen.includes("end"));
  watcher.close();
  const order = seen.filter((name) => name === STAMP_NAME || name.startsWith("former-"));
  expect(order[0]).toMatch(/^former-/);
  expect(order.at(-1)).toBe(STAMP_NAME);
});

it.for(["second", "third"])(
  "what an opener of %s makes while this one looks is told from what was there before",
  async (uid) => {
    const { above, directory, open } = await withFiles();
    let isFirst = true;
    const faster = () => {
      if (!isFirst) return systemClock.now();
      isFirst = false;
      renameSync(directory, join(above, "former-1"));
      writeFileSync(join(above, STAMP_NAME), JSON.stringify({ v: 1, uid, created_at: "" }));
      mkdirSync(directory);
      writeFileSync(join(directory, "new.txt"), `of the ${uid}`);
      return systemClock.now();
    };
    const { state } = await open({ ...systemClock, now: faster });
    expect(state).toBe(uid === "second" ? "found" : "missing_stamp");
    expect(readdirSync(directory)).toEqual(uid === "second" ? ["new.txt"] : []);
    expect(await readStamp(join(above, STAMP_NAME))).toBe("second");
  },
);
