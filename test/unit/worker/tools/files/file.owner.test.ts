/** Guarantee: what a worker that is root writes into a workspace is for the commands of the agent, too. */
import { chown, open, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { openScene } from "../scene.ts";

const COMMANDS = 65_534;

it.runIf(process.getuid?.() === 0)(
  "a file of the workspace is given to the workspace's owner, whoever owned what it replaces",
  async () => {
    const { home, call, put } = await openScene();
    for (const name of ["of-root.txt", "of-another.txt"]) await put(name, "a=1\n");
    await chown(join(home, "of-another.txt"), 1_234, 1_234);
    await chown(home, COMMANDS, COMMANDS);
    for (const name of ["of-root.txt", "of-another.txt"]) {
      const edit = { file_path: name, old_string: "a=1", new_string: "a=2" };
      expect(await call("edit_file", edit)).toMatchObject({ isError: false });
      expect((await stat(join(home, name))).uid).toBe(COMMANDS);
    }
  },
);

it.runIf(process.getuid?.() === 0)(
  "a file that cannot be given to the workspace's owner is not written: no command could use it",
  async () => {
    const { home, call, put } = await openScene();
    await put("kept.txt", "a=1\n");
    await chown(home, COMMANDS, COMMANDS);
    const handle = await open(home);
    const refused = Object.assign(new Error("not permitted"), { code: "EPERM" });
    const changing = vi.spyOn(Object.getPrototypeOf(handle), "chown").mockRejectedValue(refused);
    closeAtEnd(() => changing.mockRestore());
    await handle.close();
    const edit = { file_path: "kept.txt", old_string: "a=1", new_string: "a=2" };
    expect(await call("edit_file", edit)).toMatchObject({ isError: true });
    expect(await call("read_file", { file_path: "kept.txt" })).toMatchObject({
      content: expect.stringContaining("a=1"),
    });
  },
);
