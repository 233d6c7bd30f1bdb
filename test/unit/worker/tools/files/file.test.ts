/** Files that change between the look at their name and the work on them: what the open descriptor says decides. */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { chmod, chown, open, readFile, rename, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it, vi } from "vitest";
import {
  openFile,
  openNamed,
  type ReplaceOptions,
  readHead,
  replaceFile,
} from "../../../../../src/worker/tools/files/file.ts";
import { openDirectory, openLocation } from "../../../../../src/worker/tools/files/open.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { openScene, type Scene } from "../scene.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
});

/** Opens a name as if it had just been a regular file. */
async function openLate(where: string, name: string) {
  const directory = await openDirectory(scene.workspace, where);
  closeAtEnd(() => directory.handle.close());
  return openNamed(directory, name, name);
}

/** Replaces a file of the workspace. Answers the failure. */
async function replace(name: string, options: Partial<ReplaceOptions>): Promise<unknown> {
  const place = await openLocation(scene.workspace, name, "change");
  closeAtEnd(() => place.directory.handle.close());
  const { signal } = new AbortController();
  return replaceFile(place, Buffer.from("new"), { path: name, signal, ...options }).catch(
    (error: unknown) => error,
  );
}

describe("a name that has become something else since it was looked at", () => {
  it("is refused at once when it is a FIFO now", async () => {
    const fifo = join(scene.home, "fifo");
    execFileSync("/usr/bin/mkfifo", [fifo]);
    // Whoever waits for a writer gets one in the end.
    closeAtEnd(async () => (await open(fifo, "r+")).close());
    await expect(openLate(".", "fifo")).rejects.toThrow('"fifo" is not a regular file.');
  });

  it("is refused when it is a directory now", async () => {
    await scene.put("directory/x", "");
    await expect(openLate(".", "directory")).rejects.toThrow('"directory" is a directory, not a file.');
  });

  it("is not followed when it is a link now", async () => {
    await symlink(join(scene.outside, "secret.txt"), join(scene.writable, "link"));
    await expect(openLate(scene.writable, "link")).rejects.toThrow(/link/);
  });
});

describe("readHead", () => {
  it("reads no more than it was asked for", async () => {
    await scene.put("long", "x".repeat(100_000));
    const place = await openLocation(scene.workspace, "long");
    const file = await openFile(place, "long");
    closeAtEnd(async () => {
      await file.handle.close();
      await place.directory.handle.close();
    });
    expect(await readHead(file, 1_000)).toHaveLength(1_000);
  });
});

/** The time of the file when it was read, epoch seconds. */
const READ_AT = 5;

/** Writes a file whose time is `atS`, epoch seconds. */
async function putAt(name: string, text: string, atS: number): Promise<void> {
  await scene.put(name, text);
  await utimes(join(scene.home, name), atS, atS);
}

/** Reads what is known of the file `kept`, then changes it. */
async function changedSinceRead(change: () => Promise<unknown>): Promise<Partial<ReplaceOptions>> {
  const path = join(scene.home, "kept");
  await utimes(path, READ_AT, READ_AT);
  const unchangedSince = await stat(path);
  await change();
  return { unchangedSince };
}

describe("a file that is replaced", () => {
  it.each<[string, () => Promise<Partial<ReplaceOptions>>, RegExp]>([
    ["once its run is stopped", async () => ({ signal: AbortSignal.abort() }), /^Cancelled/],
    [
      "when somebody changed it since it was read",
      () => changedSinceRead(() => scene.put("kept", "changed by another")),
      /changed by someone else/,
    ],
    [
      "when somebody changed as many bytes as it has",
      () => changedSinceRead(() => putAt("kept", "odd", 1)),
      /changed by someone else/,
    ],
    [
      "when somebody changed its length and set its time back",
      () => changedSinceRead(() => putAt("kept", "longer", READ_AT)),
      /changed by someone else/,
    ],
    [
      "when somebody put another file of its length and time there",
      () =>
        changedSinceRead(async () => {
          await putAt("other", "odd", READ_AT);
          await rename(join(scene.home, "other"), join(scene.home, "kept"));
        }),
      /changed by someone else/,
    ],
  ])("stays as it is %s, and no draft is left behind", async (_when, options, message) => {
    await scene.put("kept", "old");
    const failure = await replace("kept", await options());
    expect(String(failure instanceof Error && failure.message)).toMatch(message);
    expect(await readFile(join(scene.home, "kept"), "utf8")).not.toBe("new");
    expect(readdirSync(scene.home).filter((name) => name.startsWith("."))).toEqual([]);
  });
});

describe.runIf(process.getuid?.() === 0)("what a worker that is root writes into an opened directory", () => {
  const [DIRECTORY_OWNER, FILE_OWNER] = [1_234, 2_345];

  it("belongs to the owner of the file that it replaces, with its mode, otherwise to the directory's", async () => {
    const own = await openScene();
    const path = (name: string) => join(own.writable, name);
    await writeFile(path("config.txt"), "a=1\n");
    await chmod(path("config.txt"), 0o640);
    await chown(path("config.txt"), FILE_OWNER, FILE_OWNER);
    await chown(own.writable, DIRECTORY_OWNER, DIRECTORY_OWNER);
    const edit = { file_path: path("config.txt"), old_string: "a=1", new_string: "a=2" };
    expect(await own.call("edit_file", edit)).toMatchObject({ isError: false });
    const note = { file_path: path("below/new.txt"), content: "x" };
    expect(await own.call("write_file", note)).toMatchObject({ isError: false });
    const owners = await Promise.all(
      ["config.txt", "below", "below/new.txt"].map(async (name) => {
        const { uid, gid } = await stat(path(name));
        return [uid, gid];
      }),
    );
    expect(owners).toEqual([FILE_OWNER, DIRECTORY_OWNER, DIRECTORY_OWNER].map((id) => [id, id]));
    expect((await stat(path("config.txt"))).mode & 0o777).toBe(0o640);
  });

  it("is written also where the system changes no owner", async () => {
    const own = await openScene();
    await chown(own.writable, DIRECTORY_OWNER, DIRECTORY_OWNER);
    const handle = await open(own.writable);
    const refused = Object.assign(new Error("not permitted"), { code: "EPERM" });
    const changing = vi.spyOn(Object.getPrototypeOf(handle), "chown").mockRejectedValue(refused);
    await handle.close();
    closeAtEnd(() => changing.mockRestore());
    const note = { file_path: join(own.writable, "below/new.txt"), content: "x" };
    expect(await own.call("write_file", note)).toMatchObject({ isError: false });
    expect(changing).toHaveBeenCalled();
  });
});
