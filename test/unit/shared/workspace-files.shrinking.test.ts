/** Guarantee: a file that becomes shorter while it is read brings the bytes that are left, and none that never were in it. */
import { mkdtemp, open, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { readWorkspaceFile } from "../../../src/shared/workspace-files.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

const SIZE = 5_000;

test("a file that is cut between its opening and its reading is read to its new end", async () => {
  const root = await mkdtemp(join(tmpdir(), "shrinking-"));
  closeAtEnd(() => rm(root, { recursive: true, force: true }));
  const address = { tenant: "default", parentId: "planner-7", uid: newUid() };
  const more = { root, agentId: "collector", roots: [], expected: false, clock: systemClock };
  const { directory } = (await openWorkspace({ ...address, ...more })).workspace;
  const file = join(directory, "log.txt");
  await writeFile(file, "x".repeat(SIZE));
  const handle = await open(file);
  const prototype: { read(buffer: Buffer, offset: number, length: number, at: number): Promise<unknown> } =
    Object.getPrototypeOf(handle);
  await handle.close();
  const { read } = prototype;
  const spy = vi.spyOn(prototype, "read").mockImplementation(async function (this: unknown, ...given) {
    if (given[2] === SIZE) await truncate(file, 10);
    return read.apply(this as typeof prototype, given);
  });
  onTestFinished(() => spy.mockRestore());
  const bytes = await readWorkspaceFile({ root, address, agentId: "collector" }, "log.txt");
  expect(bytes.toString()).toBe("x".repeat(10));
});
