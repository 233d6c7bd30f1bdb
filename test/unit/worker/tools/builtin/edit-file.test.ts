import { writeFileSync } from "node:fs";
import { link, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { Workspace } from "../../../../../src/worker/tools/workspace.ts";
import { openScene, type Scene } from "../scene.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
});
const edit = (old_string: string, new_string: string, replace_all?: boolean, file_path = "f.txt") =>
  scene.call("edit_file", { file_path, old_string, new_string, replace_all });
const content = (path = "f.txt") => readFile(join(scene.home, path), "utf8");

describe("edit_file", () => {
  it("replaces one passage literally, whatever it looks like", async () => {
    await scene.put("f.txt", "a.b(c)");
    expect((await edit(".b(", "$&$1$`$$")).content).toBe('Edited "f.txt" (1 replacement).');
    expect(await content()).toBe("a$&$1$`$$c)");
  });

  it("refuses a passage that is not unique, and replaces all on request", async () => {
    await scene.put("f.txt", "x x x");
    expect((await edit("x", "y")).content).toMatch(/occurs 3 times/);
    expect(await content()).toBe("x x x");
    expect((await edit("x", "yx", true)).content).toMatch(/3 replacements/);
    expect(await content()).toBe("yx yx yx");
  });

  it("counts overlapping passages once", async () => {
    await scene.put("f.txt", "aaaa");
    await edit("aa", "b", true);
    expect(await content()).toBe("bb");
  });

  it("finds lines that the model wrote with LF in a file with CRLF, and keeps CRLF", async () => {
    await scene.put("f.txt", "one\r\ntwo\r\nthree\r\n");
    await edit("one\ntwo", "1\n2");
    expect(await content()).toBe("1\r\n2\r\nthree\r\n");
  });

  it("writes LF into a file without line ends, and into one with both", async () => {
    await scene.put("f.txt", "one");
    await edit("one", "1\n2");
    expect(await content()).toBe("1\n2");
    await scene.put("f.txt", "a\r\nb\nc");
    await edit("c", "c\nd");
    expect(await content()).toBe("a\r\nb\nc\nd");
  });

  it("adds lines with CRLF to a file that knows nothing else, and with LF where both are found", async () => {
    await scene.put("f.txt", "one\r\ntwo\r\n");
    await edit("one", "one\nmore");
    expect(await content()).toBe("one\r\nmore\r\ntwo\r\n");
    await scene.put("f.txt", "one\r\ntwo\n");
    await edit("one", "one\nmore");
    expect(await content()).toBe("one\nmore\r\ntwo\n");
  });

  it("looks for a long passage that almost fits everywhere without holding anybody up", async () => {
    await scene.put("f.txt", "b".repeat(1024 * 1024));
    const half = "b".repeat(200_000);
    expect((await edit(`${half}c${half}`, "x")).content).toMatch(/does not occur/);
    expect((await edit("b", "c", true)).content).toMatch(/1048576 replacements/);
    expect(await content()).toBe("c".repeat(1024 * 1024));
  });

  it("leaves bytes that are not UTF-8 as they are", async () => {
    await scene.put("f.txt", Buffer.from([0xff, 0x41, 0xfe, 0x00, 0x80]));
    await edit("A", "é");
    expect(await readFile(join(scene.home, "f.txt"))).toEqual(
      Buffer.from([0xff, 0xc3, 0xa9, 0xfe, 0x00, 0x80]),
    );
  });

  it("says what is wrong and changes nothing", async () => {
    await scene.put("f.txt", "text");
    expect((await edit("nope", "x")).content).toMatch(/does not occur/);
    expect((await edit("", "x")).content).toMatch(/field `old_string`/);
    expect((await edit("text", "text")).content).toMatch(/the same/);
    expect((await edit("a", "b", false, "no/such/file")).content).toBe('"no/such/file" does not exist.');
    await expect(stat(join(scene.home, "no"))).rejects.toMatchObject({ code: "ENOENT" });
    expect(await content()).toBe("text");
  });

  it("refuses an edit that would blow the file up before it builds it", async () => {
    await scene.put("f.txt", "a".repeat(500_000));
    expect((await edit("a", "b".repeat(100_000), true)).content).toMatch(/would have more than/);
    await scene.put("f.txt", "a".repeat(1024 * 1024 + 1));
    expect((await edit("a", "b", true)).content).toMatch(/are not edited/);
  });

  it("applies every edit of one turn to the same file", async () => {
    const parts = Array.from({ length: 20 }, (_, n) => `<${n}>`);
    await scene.put("f.txt", parts.join(""));
    const outcomes = await Promise.all(parts.map((part) => edit(part, part.replace("<", "["))));
    expect(outcomes.filter(({ isError }) => isError)).toEqual([]);
    expect(await content()).toBe(parts.map((part) => part.replace("<", "[")).join(""));
  });

  it("leaves a file alone that changes between its reading and its writing", async () => {
    const path = await scene.put("f.txt", "old");
    let text = "old";
    const workspace: Workspace = {
      ...scene.workspace,
      // Read again when the edit is booked: after the file was read, before it is written.
      get home() {
        text += " more";
        writeFileSync(path, text);
        return scene.workspace.home;
      },
    };
    const tool = scene.tools.find(({ name }) => name === "edit_file");
    const input = { file_path: "f.txt", old_string: "old", new_string: "new" };
    const edited = tool?.run(input, { ...scene.context(), workspace });
    await expect(edited).rejects.toThrow(/was changed by someone else meanwhile/);
    expect(await content()).toBe(text);
  });

  it("changes no file that has another name outside", async () => {
    const outside = join(scene.outside, "other-name.txt");
    await writeFile(outside, "old");
    await link(outside, join(scene.home, "hard.txt"));
    expect(await edit("old", "new", false, "hard.txt")).toMatchObject({ isError: true });
    expect(await readFile(outside, "utf8")).toBe("old");
  });
});
