import { mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { type OpenWorkspaceOptions, openWorkspace } from "../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { spawnNode } from "../../../helpers/processes.ts";

let root: string;
beforeEach(async () => {
  const base = await realpath(await mkdtemp(join(tmpdir(), "workspace-")));
  closeAtEnd(() => rm(base, { recursive: true, force: true }));
  root = join(base, "root");
});

const open = (more: Partial<OpenWorkspaceOptions> = {}) =>
  openWorkspace({
    root,
    tenant: "default",
    parentId: "planner-7",
    agentId: "a1",
    uid: "u1",
    roots: [],
    expected: false,
    clock: systemClock,
    ...more,
  });
const agent = (...path: string[]): string => join(root, "default/planner-7/agents/a1", ...path);

describe("openWorkspace", () => {
  it("makes the directory for its owner only, with a stamp beside it", async () => {
    const { workspace, state } = await open();
    expect(state).toBe("created");
    expect(workspace.directory).toBe(agent("workspace"));
    for (const path of [root, agent(), agent("workspace")])
      expect((await stat(path)).mode & 0o777).toBe(0o700);
    const stamp: unknown = JSON.parse(await readFile(agent(".stamp.json"), "utf8"));
    expect(stamp).toEqual({ v: 1, uid: "u1", created_at: expect.stringMatching(/^\d{4}-.*Z$/) });
    expect(await readdir(agent())).toEqual([".stamp.json", "workspace"]);
  });

  it("finds its files again", async () => {
    await writeFile(join((await open()).workspace.directory, "kept"), "");
    const { workspace, state } = await open({ expected: true });
    expect(state).toBe("found");
    expect(await readdir(workspace.directory)).toEqual(["kept"]);
  });

  it("says when the files of an agent that has worked before are not here, once", async () => {
    expect((await open({ expected: true })).state).toBe("missing_stamp");
    expect((await open({ expected: true })).state).toBe("found");
    await rm(agent("workspace"), { recursive: true });
    expect((await open({ expected: true })).state).toBe("missing_stamp");
  });

  it.each(["another uid", "garbage", "nothing"])(
    "never shows files that stand under %s, and keeps them",
    async (kind) => {
      await writeFile(join((await open()).workspace.directory, "foreign"), "");
      if (kind === "garbage") await writeFile(agent(".stamp.json"), "{");
      if (kind === "nothing") await rm(agent(".stamp.json"));
      const { workspace, state } = await open({ uid: "u2", expected: kind === "another uid" });
      expect(state).toBe(kind === "another uid" ? "missing_stamp" : "created");
      expect(await readdir(workspace.directory)).toEqual([]);
      const former = (await readdir(agent())).find((name) => /^former-\d+-[0-9a-f-]{36}$/.test(name));
      expect(await readdir(agent(former ?? "none"))).toEqual(["foreign"]);
    },
  );

  it("gives many openers at once the same workspace", async () => {
    const opened = await Promise.all(Array.from({ length: 20 }, () => open()));
    expect(new Set(opened.map(({ workspace }) => workspace.directory)).size).toBe(1);
    expect((await readdir(agent())).filter((name) => !name.startsWith("former"))).toEqual([
      ".stamp.json",
      "workspace",
    ]);
  });

  it("refuses whatever is not one plain path segment", async () => {
    const ids = ["", ".", "..", "../x", "a/b", "/a", "a\0", "a b", "-a", ".a", "é", "a".repeat(129), "a\n"];
    for (const field of ["tenant", "parentId", "agentId", "uid"]) {
      for (const id of ids) {
        await expect(open({ [field]: id }), `${field} ${id}`).rejects.toMatchObject({
          code: "invalid_input",
        });
      }
    }
    await expect(stat(root)).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("says so when the disk refuses", async () => {
    await mkdir(join(root, "default"), { recursive: true });
    await writeFile(join(root, "default/planner-7"), "a file in the way");
    await expect(open()).rejects.toMatchObject({ code: "setup_failed" });
  });
});

it("leaves nothing behind on a disk that is full, however often it is tried again", async () => {
  const child = await spawnNode("test/helpers/fixtures/full-disk.ts", { args: [root] });
  await child.closed;
  const problem = expect.stringMatching(/^The workspace of a1 cannot be opened \(EFBIG/);
  expect(child.stdout, child.stderr.join("\n")).toEqual([problem, problem, problem]);
  expect(await readdir(agent())).toEqual([]);
});

describe("exclusive", () => {
  it("runs one after another, also behind one that failed", async () => {
    const { workspace } = await open();
    const order: number[] = [];
    const step = (n: number) =>
      workspace.exclusive(async () => {
        order.push(n);
        await new Promise(setImmediate);
        order.push(n);
        if (n === 2) throw new RangeError("two");
        return n;
      });
    const results = await Promise.allSettled([step(1), step(2), step(3)]);
    expect(order).toEqual([1, 1, 2, 2, 3, 3]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  });
});
