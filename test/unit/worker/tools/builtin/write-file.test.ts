import { chmod, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { openScene, type Scene } from "../scene.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
});
const write = (file_path: string, content: string, signal?: AbortSignal) =>
  scene.call("write_file", { file_path, content }, signal);

describe("write_file", () => {
  it("makes file and directories for the owner only and says how many bytes", async () => {
    expect((await write("a/b/c.txt", "é\n")).content).toBe('Wrote 3 bytes to "a/b/c.txt".');
    expect(await readFile(join(scene.home, "a/b/c.txt"), "utf8")).toBe("é\n");
    expect((await stat(join(scene.home, "a/b"))).mode & 0o777).toBe(0o700);
    expect((await stat(join(scene.home, "a/b/c.txt"))).mode & 0o777).toBe(0o600);
  });

  it("replaces the whole content, keeps the mode and leaves no draft behind", async () => {
    await write("d/run.sh", "a long first version");
    await chmod(join(scene.home, "d/run.sh"), 0o755);
    await write("d/run.sh", "short");
    expect(await readFile(join(scene.home, "d/run.sh"), "utf8")).toBe("short");
    expect((await stat(join(scene.home, "d/run.sh"))).mode & 0o777).toBe(0o755);
    await write("d", "over a directory");
    await write("d/".padEnd(300, "x"), "name too long");
    expect(await readdir(join(scene.home, "d"))).toEqual(["run.sh"]);
  });

  it("takes an empty content, and refuses more than 1 MB", async () => {
    expect(await write("empty", "")).toMatchObject({ isError: false });
    expect(await write("huge", "x".repeat(1024 * 1024 + 1))).toMatchObject({ isError: true });
    await expect(stat(join(scene.home, "huge"))).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("writes nothing once the run is stopped", async () => {
    expect(await write("late", "x", AbortSignal.abort())).toMatchObject({ isError: true });
    await expect(stat(join(scene.home, "late"))).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("treats composed and decomposed names as the two names they are", async () => {
    await write("caf\u00e9", "NFC");
    await write("cafe\u0301", "NFD");
    expect((await scene.call("read_file", { file_path: "caf\u00e9" })).content).toBe("NFC");
  });
});
